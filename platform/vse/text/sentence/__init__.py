"""Sentence features without a recurrent net: means of word vectors, and Fisher vectors of mixtures over them."""

from vse.text.sentence import kinds as kinds  # components register themselves
