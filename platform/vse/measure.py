"""Stage 5, measure: every task on a trained run, kept beside it as JSON."""

from dataclasses import dataclass
from typing import Any

from vse import pipeline
from vse.adversaries import attack_split
from vse.config import fingerprint, knob, to_dict
from vse.evaluation.attacks import evaluate_attacks, unknown_word_rate
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import evaluate_retrieval
from vse.storage import Folder
from vse.trained import encode_adversaries, encode_split, load_run
from vse.workspace import Workspace

REVISION = 1
WORDS = ("shared", "disjoint")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasureOptions:
    """What to measure."""

    splits: tuple[str, ...] = knob(("test",), "splits of the data set")
    attacks: tuple[str, ...] = knob(WORDS, "kinds of words that adversaries take, or nothing", choices=WORDS)
    folds: int = knob(1, "retrieval within so many equal parts of the split, averaged", low=1)
    alpha: float | None = knob(None, "weight of u_sent where the family has it; default as configured", low=0, high=1)
    components: tuple[str, ...] = knob((), "types that make u_comp at inference; default as configured")


def measure_run(run: Folder, workspace: Workspace, options: MeasureOptions) -> dict[str, Any]:
    """Metrics of a run by name, computed once: `{split}/...` plain and `{split}/attack_...`, `/disjoint` behind the
    kind where adversaries take words that training negatives never had; and the unknown-word rates of what was read.

    What is there is returned as it is. Raises InputError where the run has no checkpoint or the data set no such split.
    """
    changes = {"model.components": options.components} if options.components else {}
    trained = load_run(run, changes)
    name = f"measures-{fingerprint([options, trained.checkpoint.name, REVISION])}.json"
    folder = run.child("evaluation")
    if folder.exists(name):
        return folder.read_json(name)["metrics"]
    knobs = {"alpha": options.alpha} if options.alpha is not None and "alpha" in trained.family.knobs else {}
    material = pipeline.prepare(trained.config, workspace, parsed=bool(options.attacks))
    metrics: dict[str, float] = {}
    for split in options.splits:
        codes = encode_split(trained, material, split)
        protocol = Protocol(name=split, split=split, folds=options.folds)
        owner = codes.owner.cpu().numpy()
        result = evaluate_retrieval(trained.family, codes.images, codes.captions, owner, protocol, knobs=knobs)
        metrics |= result.metrics
        texts = [c.text for c in material.records.split(split).captions]
        metrics[f"{split}/unknown_words"] = unknown_word_rate(texts, trained.vocabulary.words)
        for words in options.attacks:
            adversaries = attack_split(trained.config, workspace, material, split, words)
            sets = encode_adversaries(trained, adversaries)
            attacked = evaluate_attacks(
                trained.family, codes.images, codes.captions, owner, sets, protocol, knobs=knobs
            )
            behind = "" if words == "shared" else f"/{words}"
            for key, value in attacked.metrics.items():
                head, _, tail = key.rpartition("/")
                metrics[f"{head}{behind}/{tail}"] = value
            for attack, found in adversaries.texts.items():
                rate = unknown_word_rate(found, trained.vocabulary.words)
                metrics[f"{split}/attack_{attack}{behind}/unknown_words"] = rate
    content = {"revision": REVISION, "checkpoint": trained.checkpoint.uri, "options": to_dict(options)}
    folder.write_json(name, {**content, "metrics": metrics})
    return metrics
