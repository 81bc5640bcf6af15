"""What the bytes of a file show that the report's section "Before you run it" lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.base.document import DecodedFile, Document
from mdstorm_migrate.environment import StatedVersion, versions_in
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.old_pyarrow import OldUse, old_uses

#: The first mention of one of the libraries.
_MENTION = re.compile(rf"{OLD_ROOT}|{NEW_ROOT}".encode())
#: An import from MosaicML Streaming, and a name that distinguishes it from other packages.
_STREAMING = re.compile(rb"^[ \t\">]*(?:from|import)[ \t]+streaming\b", re.MULTILINE)
_STREAMING_NAME = re.compile(rb"\b(?:MDSWriter|LocalDataset|Streaming(?:Dataset|DataLoader))\b")


@dataclass(frozen=True)
class Seen:
    """What the bytes of a file show, each with its line in the file.

    Attributes
    ----------
    mention : int
        The line of the first mention of one of the libraries.
    versions : tuple of StatedVersion
        The versions that it states of Python, of Databricks Runtime, and of libraries.
    old_uses : tuple of OldUse
        Uses of names that pyarrow has removed.
    streaming : int or None
        The line of the first import of MosaicML Streaming.
    """

    mention: int = 1
    versions: tuple[StatedVersion, ...] = ()
    old_uses: tuple[OldUse, ...] = ()
    streaming: int | None = None


def seen_in(
    path: Path,
    data: bytes,
    file: DecodedFile,
    modules: Iterable[PythonModule],
    describing: Iterable[Document],
) -> Seen:
    """Return what the bytes of a file show.

    Parameters
    ----------
    path : Path
    data : bytes
    file : DecodedFile
    modules : iterable of PythonModule
        Its parsed Python documents.
    describing : iterable of Document
        Its documents that describe an environment.
    """
    found = _MENTION.search(data)
    return Seen(
        _line(data, found) if found is not None else 1,
        tuple(versions_in(file, describing, modules)),
        tuple(old_uses(file, modules)),
        _streaming(data) if is_code(path) and b"streaming" in data else None,
    )


def _line(data: bytes, found: re.Match[bytes]) -> int:
    return data.count(b"\n", 0, found.start()) + 1


def _streaming(data: bytes) -> int | None:
    found = _STREAMING.search(data)
    is_streaming = found is not None and _STREAMING_NAME.search(data) is not None
    return _line(data, found) if found is not None and is_streaming else None
