"""Fixed vectors of both modalities through two fully connected layers each."""

from torch import nn


def two_layers(inputs: int, hidden_dim: int, outputs: int) -> nn.Sequential:
    """Two fully connected layers, ReLU after the first: jWAE's encoders and decoders, the two-branch networks."""
    return nn.Sequential(nn.Linear(inputs, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, outputs))
