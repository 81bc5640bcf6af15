"""Kinds of files, discovered by the modules here.

To add a source, write a module here whose ``SOURCES`` are objects of the protocol
`mdstorm_migrate.base.document.Source`:

- ``claims(path, head)``: whether it reads a file, by name and first bytes. No two may claim one
  file; a file that none claims is never opened further.
- ``read(data, path) -> DecodedFile``: the text of the file and the `Document` objects in it, each
  with the ``kind`` that rules are written for. A document that is a piece of the file has a
  `Segment` with ``Shift(where it begins)``; one that is spelt differently in the file has a
  `Placement` of its own. Raise `SourceError` with the reason where the file cannot be read.

Python documents are parsed by `run.migration`, not by the source. The migrated bytes are read once
more by the same source before they are kept: if that fails, the file stays as it was.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import PurePath

from mdstorm_migrate.base.document import Source

__all__ = ["HEAD", "all_sources", "find_source"]

#: How many bytes of a file are looked at to tell its kind.
HEAD = 256


@cache
def all_sources() -> Sequence[Source]:
    """Return the sources of all kinds of files."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [source for module in modules for source in getattr(module, "SOURCES", ())]


def find_source(path: PurePath, data: bytes = b"") -> Source | None:
    """Return the source that reads a file, by its path and how it begins; None if none does."""
    head = data[:HEAD]
    return next((source for source in all_sources() if source.claims(path, head)), None)
