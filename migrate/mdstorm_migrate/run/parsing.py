"""Files that have been read and parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.base.document import DecodedFile, SourceError
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.sources import find_source


@dataclass(frozen=True)
class Parsed:
    """A file that has been read, and its Python documents."""

    file: DecodedFile
    modules: Sequence[PythonModule] = ()


def parsed(path: Path, data: bytes) -> Parsed | None:
    """Return a file with its Python documents parsed, or None if it cannot be read or parsed."""
    source = find_source(path, data)
    if source is None:
        return None
    try:
        file = source.read(data, path)
        code = [one for one in file.documents if one.kind == "python"]
        return Parsed(file, [PythonModule(one, parse_python(one.code)) for one in code])
    except (SourceError, RecursionError):
        return None
