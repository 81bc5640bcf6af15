"""Describe and verify datasets, and rebuild a lost index.

Each function takes the URL of a dataset and returns its findings as a dataclass with `to_json`;
none of them prints anything. The ``mdstorm`` command shows what they return.
"""
