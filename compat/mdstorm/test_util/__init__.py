"""Helpers for the tests of code that reads datasets."""
