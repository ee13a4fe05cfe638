"""Keys of jobs/reproduce.py."""

from dataclasses import dataclass, field

from vse.cluster.runtime import Config as RayConfig
from vse.config import knob
from vse.report.published import PAPERS
from vse.sweeps.budget import Caps
from vse.sweeps.plan import RUNS

PUBLISHED, SCENES, FLICKR8K = SCALES = ("published", "scenes", "flickr8k")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableData:
    """Where photographs are."""

    root: str = knob(
        "", "folder of COCO, of Flickr30k (jWAE, Table 7), or at scale=flickr8k of any photographs", reads="folder"
    )
    file: str = knob("", "Karpathy file in root; empty: the paper's, or the only one at scale=flickr8k")
    other: str = knob(
        "", "folder of Flickr30k, or of the second photographs (jWAE, Tables 3, 5 and 6); empty: root", reads="folder"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TableTrials(Caps):
    """How trainings run, and what they may cost."""

    concurrency: int = knob(0, "concurrent trainings; 0: one per core, or as many as the cluster has room for", low=0)
    run: str = knob("all", "all: unfinished trainings; new: all but failed ones; failed: only those", choices=RUNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReproduceOptions:
    """Keys of the job."""

    paper: str = knob("univse", f"whose tables: {', '.join(PAPERS)}")
    table: str = knob("", "numbers of the tables, separated by commas; empty: all tables of results")
    scale: str = knob(
        PUBLISHED, "published: as printed; scenes, flickr8k: the same systems at small scale", choices=SCALES
    )
    seeds: int = knob(1, "trainings of each row", low=1)
    data: TableData = field(default_factory=TableData)
    weights: str = knob("", "features.backbone.weights of every row on photographs", reads="file")
    mean: tuple[float, ...] = knob((), "features.backbone.mean of these weights; empty: ImageNet's")
    std: tuple[float, ...] = knob((), "features.backbone.std of these weights; empty: ImageNet's")
    vectors: str = knob(
        "", "text.word_vectors of rows whose paper has pretrained vectors; at scale=flickr8k of every row"
    )
    glove: str = knob("", "word vectors of the row GloVe (VSE-C, Tables 6 and 7)", reads="file")
    set: tuple[str, ...] = knob(
        (), "KEY=VALUE of every training that has the key, or of measuring (measure.KEY=VALUE)", repeated=True
    )
    sweep: TableTrials = field(default_factory=TableTrials)
    ray: RayConfig = field(default_factory=RayConfig)
