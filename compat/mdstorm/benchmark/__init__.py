"""Measure how fast a dataset is read: the mirror of ``petastorm.benchmark``."""
