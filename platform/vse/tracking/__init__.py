"""Journals of runs brought to MLflow: the only room that imports it."""
