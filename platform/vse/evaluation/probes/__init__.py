"""Probes: small networks trained on frozen vectors of words and images, to measure what the vectors hold."""
