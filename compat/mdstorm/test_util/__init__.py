"""Test helpers for code that reads datasets: the mirror of ``petastorm.test_util``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
