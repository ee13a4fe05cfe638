"""Journals of runs brought to MLflow: the only package that imports it."""
