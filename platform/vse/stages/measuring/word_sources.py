"""Word vectors for probes: of the measured run, of another run of the workspace, or of a file."""

from collections.abc import Sequence

import numpy as np
import torch

from vse.errors import InputError
from vse.evaluation.probes.frozen_vectors import OWN, RANDOM
from vse.stages.trained import Trained, load_run
from vse.storage import user_files as named_files
from vse.storage.folder import Folder
from vse.text.word_vector_files import check_head, split_path
from vse.text.word_vectors import WordVectors, file_digits, word_vectors
from vse.workspace.layout import Workspace


def vectors_of(source: str, words: Sequence[str], own: Trained, workspace: Workspace) -> WordVectors:
    """Vectors of words, zero for words that the source lacks.

    Args:
        source: `own`, the name of a run, or a file.
        words: All different.
        own: The measured run.
        workspace: Where other runs are.

    Raises:
        InputError: The run's family reads no words, or the file has none of the words.
    """
    if source == OWN:
        return run_vectors(own, words, source)
    if (run := _run(source, workspace)) is not None:
        return run_vectors(load_run(run), words, source)
    return word_vectors(source, words)


@torch.no_grad()
def run_vectors(trained: Trained, words: Sequence[str], name: str) -> WordVectors:
    """Vectors of words from a trained run, as its text encoder reads them.

    Args:
        trained: The run.
        words: Words without an entry in its vocabulary get zeros and count as not found.
        name: The source as the user named it, for the error.

    Raises:
        InputError: The run's family reads no words.
    """
    ids = [trained.vocabulary.ids.get(word, 0) for word in words]
    device = next(trained.family.parameters(), torch.zeros(0)).device
    vectors = trained.family.word_vectors(torch.tensor(ids, dtype=torch.long, device=device))
    if vectors is None:
        raise InputError(f"words={name}: the run's family reads no word vectors; name another run, a file or {RANDOM}")
    present = np.array(ids) > 0
    rows = vectors.float().cpu().numpy() * present[:, None]
    return WordVectors(tuple(words), rows, present, "run", trained.weights)


def source_digits(source: str, workspace: Workspace, key: str) -> str:
    """What the vectors of a run or a file depend on.

    Args:
        source: The name of a run, or a file.
        workspace: Where runs are.
        key: That names the source, for messages.

    Raises:
        InputError: There is neither such a run nor such a file, or it has no word vectors.
    """
    if (run := _run(source, workspace)) is not None:
        trained = load_run(run)
        if trained.family.word_vectors(torch.zeros(1, dtype=torch.long)) is None:
            raise InputError(f"{key}={source}: the run's family reads no word vectors")
        return trained.weights
    try:
        split_path(source)
        if not named_files.is_remote(source):
            check_head(source)
        return file_digits(source)
    except InputError as error:
        runs = ", ".join(workspace.root.child("runs").names())
        raise InputError(
            f"{key}={source}: neither a run ({runs}) nor a file of word vectors ({error}); expected one of these, "
            f"{OWN} or {RANDOM}"
        ) from None


def _run(source: str, workspace: Workspace) -> Folder | None:
    runs = workspace.root.child("runs")
    return runs.child(source) if "/" not in source and source in runs.names() else None
