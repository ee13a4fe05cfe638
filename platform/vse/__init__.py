"""Distributed experiments with visual-semantic embeddings: joint spaces of images and sentences."""

__version__ = "0.1.0"
