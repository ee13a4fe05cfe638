"""Fisher vectors at their published size: captions a second, memory of the components."""

import resource
import time

import numpy as np
import pytest

from vse import registry
from vse.text.sentence.pca import fit_pca
from vse.text.word_vectors import WordVectors


@pytest.mark.slow
@pytest.mark.benchmark
def test_captions_a_second_at_the_published_size():
    rng = np.random.default_rng(0)
    words = tuple("".join(chr(97 + k // 26**p % 26) for p in range(4)) for k in range(8000))
    values = rng.normal(size=(len(words), 300)).astype(np.float32)
    known = np.ones(len(words), dtype=bool)
    vectors = WordVectors(words, values, known, "text", "00000000")
    frequency = 1 / np.arange(1, len(words) + 1)
    captions = [" ".join(rng.choice(words, 11, p=frequency / frequency.sum())) for _ in range(3000)]
    config = registry.component("sentence", "hglmm").Config(dims=0, iterations=5)
    started = time.process_time()
    features = registry.build("sentence", config).fit(captions, vectors)
    fitted = time.process_time() - started
    features.encode(captions[:1])  # responsibilities of the vocabulary
    started = time.process_time()
    for block in features.blocks(features.bags(captions)):
        assert block.shape[1] == 18_000
    rate = len(captions) / (time.process_time() - started)
    started, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    pca = fit_pca(lambda: features.blocks(features.bags(captions[:1500])), 6000)
    assert len(pca.components) <= 1499
    components, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\nEM {fitted / 5:.1f} s a step over {len(words)} words; {rate:.0f} Fisher vectors/s "
        f"({591_753 / rate / 60:.1f} min for 591,753); {len(pca.components)} components "
        f"of 1,500 captions in {components:.0f} s (processor time); "
        f"peak memory {memory:.2f} GiB before them, {peak:.2f} GiB after"
    )
    assert rate > 100
