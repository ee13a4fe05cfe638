"""Evaluation beside the bare matrix product it cannot avoid. Run with `-s` to see the ratios."""

import resource

import pytest
import torch

from tests.benchmarks.clocks import seconds
from tests.unit.evaluation.models import Cosine, Mixed, unit
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.retrieval import retrieve

pytestmark = pytest.mark.benchmark
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def planted(num_images, num_captions, device, width=1024, latent=24):
    """Embeddings in a narrow subspace, so that negatives compete with positives as they do for a trained model."""
    generator = torch.Generator().manual_seed(0)
    caption_to_image = torch.arange(num_images).repeat_interleave(num_captions // num_images)
    spread = torch.randn(latent, width, generator=generator)
    images = torch.randn(num_images, latent, generator=generator)
    captions = [
        images[caption_to_image] + 1.4 * torch.randn(len(caption_to_image), latent, generator=generator)
        for _ in range(2)
    ]
    return (
        unit(images @ spread).to(device),
        [unit(c @ spread).to(device) for c in captions],
        caption_to_image.to(device),
    )


def fastest(run, device, times=3):
    """Least time of a few runs."""
    return min(seconds(run, torch.device(device), at_once=1) for _ in range(times))


def product(images, captions):
    """The bare blocked product, kept nowhere."""
    for part in captions.split(2048):
        for rows in images.split(512):
            torch.mm(rows, part.T)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("num_images", "num_captions"), [(1000, 5000), (5000, 25000)])
def test_retrieval_costs_little_more_than_the_product(device, num_images, num_captions):
    images, (captions, _), caption_to_image = planted(num_images, num_captions, device)
    bare = fastest(lambda: product(images, captions), device)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole = fastest(lambda: retrieve(Cosine(), {"v": images}, {"u": captions}, caption_to_image), device)
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"\n{device}, {num_images} x {num_captions}: product {bare:.3f} s, whole {whole:.3f} s, {whole / bare:.2f}")
    assert whole / bare < (1.5 if device == "cuda" else 1.3)
    assert extra < 1024


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("num_images", "num_captions"), [(1000, 5000), (5000, 25000)])
def test_twenty_one_alphas_cost_little_more_than_one(device, num_images, num_captions):
    images, (sentences, bags), caption_to_image = planted(num_images, num_captions, device)
    codes, texts = {"v": images}, {"sent": sentences, "comp": bags}
    one = fastest(lambda: retrieve(Mixed(), codes, texts, caption_to_image), device, 2)
    grid = [k / 20 for k in range(21)]
    whole = fastest(lambda: evaluate_alphas(Mixed(), codes, texts, caption_to_image, {}, grid), device, 2)
    r1 = evaluate_alphas(Mixed(), codes, texts, caption_to_image, {}, [0.75])[0].retrieval.metrics()["i2t/r1"]
    print(
        f"\n{device}, {num_images} x {num_captions}, R@1 {r1:.0f} %: one {one:.2f} s, 21 "
        f"{whole:.2f} s, {whole / one:.2f}"
    )
    assert whole / one < (3.0 if device == "cuda" else 1.3)
