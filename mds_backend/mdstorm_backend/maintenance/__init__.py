"""Describe and verify datasets, and rebuild a lost index.

Each function takes the URL of a dataset and returns its findings as a dataclass with `to_json`;
none of them prints anything. The ``mdstorm`` command shows their results.
"""

from __future__ import annotations

from mdstorm_backend.maintenance.inspect import Inspection, head, inspect
from mdstorm_backend.maintenance.reindex import reindex
from mdstorm_backend.maintenance.verify import VerifyReport, verify

__all__ = ["Inspection", "VerifyReport", "head", "inspect", "reindex", "verify"]
