"""Test helpers for code that reads datasets: the mirror of ``petastorm.test_util``."""
