"""Decide about samples of numbers: their spread, whether two differ; know no operator or run."""
