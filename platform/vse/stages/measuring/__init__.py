"""Trained runs measured: every task on them, alone or as an ensemble, and the files that keep the numbers."""
