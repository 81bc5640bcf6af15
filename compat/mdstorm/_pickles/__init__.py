"""Petastorm's pickles: read as data, without executing them, and written by hand."""
