"""Word vectors from captions: `python jobs/train_word_vectors.py captions=FILE,FILE out=vectors.vec`."""

import sys
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import fingerprint, knob
from vse.errors import InputError
from vse.storage.files import local_path, sha256_of_file
from vse.text.word_vector_training import VectorConfig, read_captions, save_text, train_word_vectors
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class WordVectorOptions:
    """Keys of this job."""

    captions: tuple[str, ...] = knob(
        (), "files of captions: text, one per line, or a table of them; .gz too", reads="file"
    )
    out: str = knob(
        "", "file to write; empty: vectors/<digits of captions and settings>.vec in the workspace", writes="file"
    )
    vectors: VectorConfig = field(default_factory=VectorConfig)


def run(request: Request) -> str:
    """Train and write the vectors. Use captions of training images only; the job does not know splits."""
    options = request.options
    if not options.captions:
        raise InputError("captions: name at least one file")
    set_up_logging()
    captions = [caption for path in options.captions for caption in read_captions(path)]
    names, vectors = train_word_vectors(captions, options.vectors)
    folder = Workspace.open(request.workspace).check_writable().root.child("vectors")
    path = local_path(options.out) if options.out else folder.local(f"{fingerprint([captions, options.vectors])}.vec")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, names, vectors)
    return request.write_summary(
        folder,
        fingerprints={"vectors": sha256_of_file(path)[:8]},
        headline={"captions": len(captions), "words": len(names), "dim": vectors.shape[1]},
        outputs={"vectors": path},
    )


if __name__ == "__main__":
    sys.exit(
        main(
            "train_word_vectors",
            run,
            description="Skip-gram word vectors from captions, for `text.word_vectors`.",
            options=WordVectorOptions(),
        )
    )
