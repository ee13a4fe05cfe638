"""Sentence features without a recurrent net: means of word vectors, and Fisher vectors of mixtures over them."""

from vse.language.sentence import kinds as kinds  # components register themselves
