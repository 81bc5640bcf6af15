"""Datasets on disk as Petastorm has them: their schemas, their codecs, and what becomes of them."""
