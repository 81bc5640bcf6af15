"""Measure how fast a dataset is read: the mirror of ``petastorm.benchmark``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
