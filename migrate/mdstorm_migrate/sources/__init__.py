"""Kinds of files. Each kind is an object in the ``SOURCES`` of a module here.

To add a source, write a module here whose ``SOURCES`` are objects of the protocol
`mdstorm_migrate.base.document.Source`:

- ``claims(path, head)``: whether it reads a file, judging by name and first bytes. No two sources
may claim the same file. A file that no source claims is not read any further.
- ``read(data, path) -> DecodedFile``: the text of the file and its `Document` objects, each with
the ``kind`` that rules are written for. A document that is a piece of the file has a `TextSegment`
with ``Shift(start of the piece)``; one whose text is escaped or prefixed in the file has its own
`Placement`. Raise `SourceError` with the reason if the file cannot be read.

`run.migration` parses Python documents, not the source. The same source reads the migrated bytes
again before they are kept: if that fails, the file stays unchanged.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import PurePath

from mdstorm_migrate.base.document import DecodedFile, Source, SourceError

__all__ = ["HEAD", "all_sources", "find_source", "read_file"]

#: Number of bytes read from a file to determine its kind.
HEAD = 256


@cache
def all_sources() -> Sequence[Source]:
    """Return the sources for all kinds of files."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [source for module in modules for source in getattr(module, "SOURCES", ())]


def find_source(path: PurePath, data: bytes = b"") -> Source | None:
    """Return the source for a file, judging by its path and first bytes, or None if none fits."""
    head = data[:HEAD]
    return next((source for source in all_sources() if source.claims(path, head)), None)


def read_file(path: PurePath, data: bytes) -> DecodedFile:
    """Return a decoded file, or one without documents if no source can read it."""
    with contextlib.suppress(SourceError, RecursionError):
        source = find_source(path, data)
        if source is not None and data:
            return source.read(data, path)
    return DecodedFile("", ())
