"""Embedding Network and Similarity Network (Wang et al., TPAMI 2019) as the jWAE paper compares with them (Table 3).

Our reading: their paper is not among our sources, every number is ours. Adam 1e-4 as jWAE's, 30 epochs.
"""

from dataclasses import replace

from vse.data.karpathy import Karpathy
from vse.models.embedding_network import EmbeddingNetwork
from vse.models.similarity_network import SimilarityNetwork
from vse.objectives.embedding_network import EmbeddingNetworkLoss
from vse.objectives.logistic import Logistic
from vse.presets.catalogue import published, variants
from vse.presets.jwae import vgg_and_vectors
from vse.presets.vsepp import COCO, FLICKR30K
from vse.registry import ComponentConfig
from vse.text.sentence.kinds import HGLMM
from vse.training.config import OptimConfig, RunConfig


def _embedding(data: Karpathy.Config, sentence: ComponentConfig | None = None) -> RunConfig:
    frame, model = vgg_and_vectors(data, sentence), EmbeddingNetwork.Config(image="fc1")
    return replace(frame, model=model, objective=EmbeddingNetworkLoss.Config(), optim=OptimConfig(lr=1e-4))


def _similarity(data: Karpathy.Config) -> RunConfig:
    frame, model = vgg_and_vectors(data, HGLMM.Config()), SimilarityNetwork.Config(image="fc1")
    return replace(frame, model=model, objective=Logistic.Config(), optim=OptimConfig(lr=1e-4))


@variants("embedding_network_scenes", "embedding_network_small", "embedding_network_flickr8k")
@published
def embedding_network_coco() -> RunConfig:
    """Emb. Network (VGG+w2v)."""
    return _embedding(COCO)


@published
def embedding_network_flickr30k() -> RunConfig:
    """Emb. Network (VGG+w2v)."""
    return _embedding(FLICKR30K)


@variants("embedding_network_hglmm_scenes", "embedding_network_hglmm_small", "embedding_network_hglmm_flickr8k")
@published
def embedding_network_hglmm_coco() -> RunConfig:
    """Emb. Network (VGG+HGLMM)."""
    return _embedding(COCO, HGLMM.Config())


@published
def embedding_network_hglmm_flickr30k() -> RunConfig:
    """Emb. Network (VGG+HGLMM)."""
    return _embedding(FLICKR30K, HGLMM.Config())


@variants("similarity_network_scenes", "similarity_network_small", "similarity_network_flickr8k")
@published
def similarity_network_coco() -> RunConfig:
    """Sim. Network (VGG+HGLMM)."""
    return _similarity(COCO)


@published
def similarity_network_flickr30k() -> RunConfig:
    """Sim. Network (VGG+HGLMM)."""
    return _similarity(FLICKR30K)
