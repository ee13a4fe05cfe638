"""Small stand-ins for families, in terms of embeddings."""

import torch


def unit(x):
    """Rows of length one."""
    return torch.nn.functional.normalize(x, dim=-1)


class Cosine:
    """One embedding an image, one a caption."""

    def score_parts(self, images, captions):
        return {"cosine": images["v"] @ captions["u"].T}

    def combine(self, parts, sign=1.0):
        return sign * parts["cosine"]


class Mixed:
    """UniVSE's sentence and component embeddings, mixed by alpha."""

    def __init__(self, renormalise=True):
        self.renormalise = renormalise

    def score_parts(self, images, captions):
        sent, comp = captions["sent"], captions["comp"]
        return {
            "sentence": images["v"] @ sent.T,
            "bag": images["v"] @ comp.T,
            "dot": (sent * comp).sum(1)[None],
        }

    def combine(self, parts, alpha=0.75):
        mixed = alpha * parts["sentence"] + (1 - alpha) * parts["bag"]
        if not self.renormalise:
            return mixed
        return mixed / (alpha**2 + (1 - alpha) ** 2 + 2 * alpha * (1 - alpha) * parts["dot"]).sqrt()
