"""Check the directory that a dataset is written to, and what is already there."""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from dataclasses import dataclass
from typing import Any, TypeAlias

from mdstorm_backend.errors import (
    CorruptDatasetError,
    DatasetExistsError,
    InvalidArgumentError,
)
from mdstorm_backend.format.compression import EXTENSIONS, extension
from mdstorm_backend.format.index import INDEX_NAME, Index
from mdstorm_backend.format.shard_info import MARKER_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import CLAIM_NAME, Claim, check_free

Path: TypeAlias = str | os.PathLike[str]

#: What a writer that was killed leaves in a directory that it had for itself.
_OF_A_WRITER = re.compile(
    rf"(index\.json|shard\.\d{{5,}}\.mds(\.({EXTENSIONS}))?)(\.[0-9a-f]{{32}}\.tmp)?"
)


@dataclass(frozen=True)
class Targets:
    """What an argument ``out`` stands for.

    Attributes
    ----------
    to_write : tuple of Location
        Directories that every file is written to.
    all : tuple of Location
        Those, and a local one that stays empty.
    local, remote : str or None
        Local directory and URL, as they were given.
    """

    to_write: tuple[Location, ...]
    all: tuple[Location, ...]
    local: str | None
    remote: str | None


def find_targets(
    out: Path | tuple[Path, Path],
    keep_local: bool,
    storage_options: dict[str, Any] | None,
    *,
    temporary: bool = True,
) -> Targets:
    """Return where a dataset goes.

    Parameters
    ----------
    out : str or path, or pair of them
        A local path or a URL, or a pair ``(local, remote)``.
    keep_local : bool
        Write a local copy of what goes to a URL.
    temporary : bool
        With `keep_local` and a URL alone: write the copy to a new temporary directory.

    Raises
    ------
    InvalidArgumentError
        If `out` is none of these.
    """
    local, remote = _local_and_remote(out)
    if remote is None:
        assert local is not None
        here = (Location.of(local),)
        return Targets(here, here, local, None)
    there = Location.of(remote, storage_options)
    if local is None:
        if not (keep_local and temporary):
            return Targets((there,), (there,), None, remote)
        local = tempfile.mkdtemp(prefix="mdstorm-")
    here = (Location.of(local),)
    if here[0].url == there.url:
        raise InvalidArgumentError(
            f"Invalid `out` argument: both of {out!r} are the same directory. Pass only one of them"
        )
    return Targets((*here, there) if keep_local else (there,), (*here, there), local, remote)


def _local_and_remote(out: Path | tuple[Path, Path]) -> tuple[str | None, str | None]:
    if isinstance(out, (str, os.PathLike)) and os.fspath(out):
        path = os.fspath(out)
        return (path, None) if _is_local(path) else (None, path)
    if isinstance(out, (tuple, list)) and len(out) == 2 and out[0] and _is_local(out[0]):
        return os.fspath(out[0]), os.fspath(out[1]) if out[1] else None
    raise InvalidArgumentError(
        f"Invalid `out` argument: it must be a path or a URL, or a pair of a local path and a URL, "
        f"found {out!r}"
    )


def _is_local(path: Path) -> bool:
    return Location.of(os.fspath(path)).url.startswith("file:///")


def clear_target(location: Location, *, exist_ok: bool, first_shard: str) -> None:
    """Make sure that nothing is in the way of a new dataset.

    A local directory must be empty. Elsewhere other files may lie beside a dataset, so only a
    dataset in that very directory, or a shard of one, is in the way.

    Parameters
    ----------
    location : Location
        The directory.
    exist_ok : bool
        Remove the dataset that is there, or what a writer that was killed has left of one. If a
        local directory holds anything beyond it, nothing is removed.
    first_shard : str
        Name of the first file that will be written.

    Raises
    ------
    DatasetExistsError
        If something is in the way.
    """
    if location.is_local_disk and os.path.isfile(location.path):
        raise DatasetExistsError(f"{location.url} is a file: choose a directory for the dataset")
    if not location.is_local_disk and not _is_taken(location, first_shard):
        return
    names = location.list_names()
    if not names:
        return
    unfinished = location.is_local_disk and CLAIM_NAME in names
    if unfinished:
        check_free(location)
    own = _own_files(location, names)
    if unfinished:
        # That writer had the directory for itself.
        own += [name for name in names if name not in own and _OF_A_WRITER.fullmatch(name)]
    foreign = [name for name in names if name not in own and name != CLAIM_NAME]
    if foreign if location.is_local_disk else first_shard in foreign:
        raise DatasetExistsError(
            f"Directory is not empty: {location.url} holds {_some(foreign)}, which no dataset "
            "there owns. exist_ok=True replaces a dataset and removes nothing else, so nothing was "
            "removed; remove these files yourself, or choose another directory"
        )
    if not exist_ok:
        what = "what is left of a writer that was killed" if unfinished else "the dataset there"
        raise DatasetExistsError(
            f"Directory is not empty: {location.url} holds {_some(names)}. Choose another "
            f"directory, or replace {what} with exist_ok=True"
        )
    claim = Claim(location)  # so that who is killed here can start again
    for name in own:
        location.remove(name)
    claim.release()
    if location.is_local_disk:
        for directory in sorted({posixpath.dirname(name) for name in own} - {""}, reverse=True):
            location.child(directory).remove_directory_if_empty()


def _is_taken(location: Location, first_shard: str) -> bool:
    return any(map(location.exists, (INDEX_NAME, first_shard)))


def _own_files(location: Location, names: list[str]) -> list[str]:
    """Files of the dataset in a directory, its index first."""
    if INDEX_NAME not in names:
        return []
    try:
        url = location.file_url(INDEX_NAME)
        index = Index.from_bytes(bytes(location.read(INDEX_NAME)), url=url)
    except CorruptDatasetError:
        return []
    listed = set()
    for shard in index.shards:
        listed.add(shard.raw_data.basename)
        if shard.compression:
            listed.add(f"{shard.raw_data.basename}.{extension(shard.compression)}")
        if shard.zip_data is not None:
            listed.add(shard.zip_data.basename)
    # The parts of a merged dataset have an index each.
    listed |= {posixpath.join(posixpath.dirname(name), INDEX_NAME) for name in listed}
    listed.add(MARKER_NAME)
    # Only what was found below this directory, whatever the index says.
    return [INDEX_NAME, *(n for n in names if n in listed and n != INDEX_NAME)]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
