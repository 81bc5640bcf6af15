"""Python modules and scripts."""

from __future__ import annotations

from pathlib import PurePath

from mdstorm_migrate.base.document import DecodedFile, Document, Segment
from mdstorm_migrate.sources.decoding import decode_python

#: The first line of a notebook that Databricks has exported as Python source.
DATABRICKS_HEADER = b"# Databricks notebook source"

_SUFFIXES = {".py", ".pyi", ".pyw"}


class PythonSource:
    """A module or a script: one Python document."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether it is Python, and no notebook."""
        return path.suffix in _SUFFIXES and not head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the text in the encoding that its first lines declare."""
        text, mark, encoding = decode_python(data)
        return DecodedFile(text, [Document("python", [Segment(text)], path)], encoding, mark)


SOURCE = PythonSource()
