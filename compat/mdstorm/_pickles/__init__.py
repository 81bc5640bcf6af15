"""Petastorm's pickles, read as data and written by hand."""
