"""Describe and verify datasets, and rebuild a lost index.

Each function takes the URL of a dataset and returns what it found as a dataclass with a `to_json`;
none of them prints anything. The command ``mdstorm`` shows what they return.
"""
