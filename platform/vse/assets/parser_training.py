"""Training the shipped caption parser on a Universal Dependencies treebank: tagger, morphologizer, dependency parser.

One convolutional encoder serves all three heads. Captions differ from treebank text (no capitals, no full stop, noun
phrases for sentences), so treebank sentences are varied and caption-like trees from a grammar are mixed in.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy
import spacy
from spacy.language import Language
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam

from vse.assets.caption_grammar import captions
from vse.assets.treebank import Sentence, group, read_conllu, vary
from vse.config import canonical, knob
from vse.errors import InputError
from vse.text.lemmas import LEMMAS_FILE, LemmaTable

NAME, VERSION, LICENCE = "vse", "1.0.0", "CC BY-SA 4.0"
_LABEL_CAPTIONS = 3000  # enough for every label that the grammar can write
HEADS = ("tagger", "morphologizer", "parser")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig:
    """All settings of the trained pipeline, besides the treebank."""

    seed: int = knob(1, "seed of initial weights, order and variations", low=0)
    num_epochs: int = knob(9, "passes over the treebank", low=1)
    width: int = knob(96, "width of the token encoder", low=8)
    depth: int = knob(4, "convolutions; each sees one more word to either side", low=1)
    rows: int = knob(5000, "rows of the word hash table; affixes and shapes get half, half and a quarter", low=100)
    hidden: int = knob(64, "hidden width of the transition model", low=8)
    dropout: float = knob(0.1, "dropout", low=0.0, high=0.9)
    lower: float = knob(0.4, "share of sentences in lower case", low=0.0, high=1.0)
    no_stop: float = knob(0.4, "share of sentences without their full stop", low=0.0, high=1.0)
    joined: float = knob(0.15, "share of sentences joined to the one before", low=0.0, high=0.9)
    num_captions: int = knob(5000, "caption-like trees from the grammar, fresh ones each epoch", low=0)
    learn_rate: float = knob(0.001, "Adam's learning rate, warmed up over 250 steps, then falling linearly", above=0.0)
    num_sentences: int | None = knob(None, "use only the first sentences of the treebank", low=1)


def train(treebank: Path, output: Path, config: TrainingConfig, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Train on a treebank and keep the averaged weights of the last epoch.

    Args:
        treebank: Folder with the files `*-train.conllu`, `*-dev.conllu` and `*-test.conllu`, each perhaps with `.gz`.
        output: Folder of the trained pipeline; an older one is replaced.
        config: Settings of the training.
        say: Called with a line on the accuracies on dev after each epoch.

    Returns:
        Size in bytes, duration in seconds, and accuracies on dev and test (shares of one).

    Raises:
        InputError: The treebank is missing.
    """
    splits = {name: read_conllu(path) for name, path in treebank_files(treebank).items()}
    learn = splits["train"][: config.num_sentences]
    _seed(config.seed)
    nlp = _blank(config)
    labelled = [*learn, *captions(Random(config.seed), _LABEL_CAPTIONS if config.num_captions else 0)]
    nlp.initialize(lambda: [_example(nlp, sentence) for sentence in labelled])
    optimizer = Adam(config.learn_rate, L2=0.01, grad_clip=1.0, use_averages=True)
    start, step, num_steps = time.perf_counter(), 0, _num_steps(learn, config)
    for epoch in range(config.num_epochs):
        losses: dict[str, float] = {}
        for batch in _batches(nlp, learn, config, epoch):
            optimizer.learn_rate = config.learn_rate * min((step + 1) / 250, max(1 - step / num_steps, 0.02))
            nlp.update(batch, sgd=optimizer, drop=config.dropout, losses=losses)
            step += 1
        with nlp.use_params(optimizer.averages):
            scores = evaluate(nlp, splits["dev"][: 500 if epoch + 1 < config.num_epochs else None])
        say(f"epoch {epoch + 1}/{config.num_epochs} {time.perf_counter() - start:.0f} s dev {_line(scores)}")
    table = LemmaTable.learn(_words(learn))
    with nlp.use_params(optimizer.averages):
        scores = {name: evaluate(nlp, splits[name]) for name in ("dev", "test")}
        for name in scores:
            scores[name]["lemma"] = table.accuracy(_words(splits[name]))
        nlp.meta.update(_meta(config, scores))
        save(nlp, table, output)
    num_bytes = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return {"bytes": num_bytes, "seconds": time.perf_counter() - start, **scores}


def _seed(seed: int) -> None:
    """Initial weights, dropout and spaCy's own shuffles draw from the global streams."""
    random.seed(seed)
    numpy.random.seed(seed)


def _words(sentences: Iterable[Sentence]) -> Iterator[tuple[str, str, str]]:
    """(form, coarse part of speech, lemma) of every token."""
    for sentence in sentences:
        yield from zip(sentence.words, sentence.pos, sentence.lemmas, strict=True)


def treebank_files(treebank: Path) -> dict[str, Path]:
    """The files of the splits train, dev and test. Raises InputError if one is missing."""
    paths = {}
    for split in ("train", "dev", "test"):
        files = sorted(treebank.glob(f"*-{split}.conllu*"))
        if not files:
            raise InputError(f"{treebank}: has no *-{split}.conllu or .conllu.gz; expected UD English EWT")
        paths[split] = files[0]
    return paths


def _meta(config: TrainingConfig, scores: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        "name": NAME,
        "version": VERSION,
        "license": LICENCE,
        "description": "Tagger and dependency parser for image captions, trained on UD English EWT",
        "sources": [
            {
                "name": "UD English EWT",
                "license": LICENCE,
                "author": "Silveira et al. (2014)",
                "url": "https://universaldependencies.org/treebanks/en_ewt",
            }
        ],
        "performance": {f"{split}_{key}": round(value, 4) for split in scores for key, value in scores[split].items()},
        "training": canonical(config),
    }


def _blank(config: TrainingConfig) -> Language:
    nlp = spacy.blank("en")
    rows = [config.rows, config.rows // 2, config.rows // 2, config.rows // 4]
    encoder = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": config.width,
            "rows": rows,
            "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": config.width,
            "depth": config.depth,
            "window_size": 1,
            "maxout_pieces": 3,
        },
    }
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": config.width, "upstream": "tok2vec"}
    softmax = {"@architectures": "spacy.Tagger.v2", "nO": None, "normalize": False, "tok2vec": listener}
    nlp.add_pipe("tok2vec", config={"model": encoder})
    nlp.add_pipe("tagger", config={"model": softmax})
    nlp.add_pipe("morphologizer", config={"model": softmax})
    nlp.add_pipe(
        "parser",
        config={
            "min_action_freq": 20,
            "model": {
                "@architectures": "spacy.TransitionBasedParser.v2",
                "state_type": "parser",
                "extra_state_tokens": False,
                "hidden_width": config.hidden,
                "maxout_pieces": 2,
                "use_upper": True,
                "nO": None,
                "tok2vec": listener,
            },
        },
    )
    return nlp


def _example(nlp: Language, sentence: Sentence) -> Example:
    words = list(sentence.words)
    gold = Doc(
        nlp.vocab,
        words=words,
        tags=list(sentence.tags),
        pos=list(sentence.pos),
        heads=list(sentence.heads),
        deps=list(sentence.deps),
    )
    return Example(Doc(nlp.vocab, words=words), gold)


def _batches(
    nlp: Language, sentences: Sequence[Sentence], config: TrainingConfig, epoch: int
) -> Iterator[list[Example]]:
    stream = Random(f"{config.seed}/{epoch}")
    drawn = [*sentences, *captions(stream, config.num_captions)]
    stream.shuffle(drawn)
    varied = (vary(sentence, stream, config.lower, config.no_stop) for sentence in drawn)
    examples = (_example(nlp, sentence) for sentence in group(varied, stream, config.joined))
    yield from minibatch_by_words(examples, size=_words_per_batch(epoch), tolerance=0.2)


def _words_per_batch(epoch: int) -> int:
    return min(300 * (epoch + 1), 1000)


def _num_steps(sentences: Sequence[Sentence], config: TrainingConfig) -> int:
    num_words = sum(len(s.words) for s in sentences) + 11 * config.num_captions
    return sum(num_words // _words_per_batch(epoch) + 1 for epoch in range(config.num_epochs))


def evaluate(nlp: Language, sentences: Iterable[Sentence]) -> dict[str, float]:
    """Shares of right tags and coarse parts of speech over all tokens; UAS and LAS over all but punctuation.

    Labels are compared with their subtypes; tokens are the treebank's.
    """
    sentences = list(sentences)
    right = dict.fromkeys(("tag", "pos", "uas", "las"), 0)
    num_tokens = num_arcs = 0
    docs = (Doc(nlp.vocab, words=list(sentence.words)) for sentence in sentences)
    for sentence, doc in zip(sentences, nlp.pipe(docs, batch_size=256), strict=True):
        for i, token in enumerate(doc):
            num_tokens += 1
            right["tag"] += token.tag_ == sentence.tags[i]
            right["pos"] += token.pos_ == sentence.pos[i]
            if sentence.deps[i] != "punct":
                num_arcs += 1
                attached = token.head.i == sentence.heads[i]
                right["uas"] += attached
                right["las"] += attached and token.dep_ == sentence.deps[i]
    totals = {"tag": num_tokens, "pos": num_tokens, "uas": num_arcs, "las": num_arcs}
    return {key: right[key] / max(totals[key], 1) for key in right}


def save(nlp: Language, table: LemmaTable, output: Path) -> None:
    """Write the pipeline and its lemmas.

    Args:
        nlp: The pipeline. Only the strings of its labels and of the language are written, since words are hashed.
        table: The lemmas of the training sentences.
        output: Folder that is written, in place of an older one.
    """
    building = output.with_name(f"{output.name}.partial")
    shutil.rmtree(building, ignore_errors=True)
    nlp.to_disk(building, exclude=["vocab"])
    labels = [label for pipe in HEADS for label in nlp.pipe_labels[pipe]]
    deps = {part for label in labels for part in (label, *label.split("-", 1), *label.split("||"))}
    strings = StringStore(sorted({*spacy.blank("en").vocab.strings, *deps, "ROOT", "dep"}))
    (building / "vocab").mkdir()
    strings.to_disk(building / "vocab" / "strings.json")
    (building / LEMMAS_FILE).write_text(table.to_json(), encoding="utf-8")
    shutil.rmtree(output, ignore_errors=True)
    building.rename(output)


def _line(scores: Mapping[str, float]) -> str:
    return " ".join(f"{key} {100 * value:.2f}" for key, value in scores.items())
