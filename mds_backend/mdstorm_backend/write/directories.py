"""Resolve, check, claim and clear the directories that datasets are written to.

If all ranks of a training job write the same dataset at the same moment, checking whether a file
exists does not prevent conflicts. A lock does, and the system releases it when its process ends,
however that happens.
"""

from __future__ import annotations

import errno
import logging
import os
import posixpath
import random
import re
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from mdstorm_backend import errors
from mdstorm_backend.base.locks import NO_LOCKS, FileLock, try_lock
from mdstorm_backend.format import EXTENSIONS
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.shard_info import CLAIM_NAME, INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location

#: Default number of retries for writing a file.
DEFAULT_RETRY = 2

_FIRST_PAUSE_SECONDS = 0.5

_Result = TypeVar("_Result")

_logger = logging.getLogger(__name__)


def make_directory(location: Location) -> bool:
    """Create a directory on this machine if it does not exist; return whether it was created.

    Object stores have no directories.

    Raises
    ------
    WriteError
        If the directory cannot be created.
    """
    if not location.url.startswith("file:///") or os.path.isdir(location.path):
        return False
    try:
        location.make_directory()
    except OSError as error:
        raise unwritable(location, error) from error
    return True


def unwritable(location: Location, error: OSError) -> errors.WriteError:
    """Return the error for a directory that cannot be written to."""
    remedy = "Choose a directory that this process, and every Spark executor that takes part, may "
    if is_full(error):
        remedy = "Free space there, or choose a directory that this process may "
    return errors.WriteError(f"{location.url} cannot be written to ({error}). {remedy}write to")


def is_full(error: BaseException | None) -> bool:
    """Whether a disk without free space caused an error."""
    is_cause = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_cause or (error is not None and is_full(error.__cause__))


def unwritten(location: Location, name: str, error: Exception) -> errors.WriteError:
    """Return the error for a file that cannot be written."""
    remedy = "free space there" if is_full(error) else "check the storage"
    return errors.WriteError(
        f"{location.file_url(name)} could not be written ({error!r}). "
        f"{outcome_of_failure(location)}; {remedy}, and write again"
    )


def retried(location: Location, call: Callable[[], _Result], retry: int = DEFAULT_RETRY) -> _Result:
    """Return the result of `call`, retrying after storage errors that may be temporary.

    Calls on a local disk are not retried.
    """
    for attempt in range(0 if location.is_local_disk else retry):
        try:
            return call()
        except Exception as error:
            lasting = (errors.MDStormError, FileNotFoundError, PermissionError)
            if isinstance(error, lasting) and not isinstance(error, errors.StorageError):
                raise
            _logger.warning("access to %s failed, trying again: %r", location.url, error)
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * (1 + random.random()))
    return call()


@contextmanager
def file_errors(location: Location, name: str) -> Iterator[None]:
    """Turn storage errors in a block that writes the file `name` into a WriteError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, errors.MDStormError) and not isinstance(error, errors.StorageError):
            raise
        raise unwritten(location, name, error) from error


def outcome_of_failure(location: Location) -> str:
    """Return a sentence on which dataset, if any, a directory holds after a failed write.

    The index is written last.
    """
    no_index = "No index is written, so nothing there counts as a dataset"
    try:
        is_dataset = location.exists(INDEX_NAME)
    except Exception as error:
        _logger.warning("could not check for %s: %r", location.file_url(INDEX_NAME), error)
        return f"{no_index} unless one was there before"
    return "The dataset that was there before is not replaced" if is_dataset else no_index


@contextmanager
def cleaning_up(location: Location) -> Iterator[None]:
    """Log errors in a block that cleans up after a failure, instead of raising them."""
    try:
        yield
    except Exception:
        _logger.warning(
            "could not clean up %s: remove mdstorm's files there", location.url, exc_info=True
        )


class Claim:
    """A lock on a directory on a local disk, held until it is released or garbage-collected.

    Parameters
    ----------
    location : Location
        The directory, which must exist. Directories elsewhere are not locked.
    marker : bytes, optional
        The marker that this writer wrote, if there was none before.

    Raises
    ------
    DatasetExistsError
        If another writer holds the directory.
    WriteError
        If the directory cannot be written to.
    """

    def __init__(self, location: Location, marker: bytes | None = None) -> None:
        self._location = location
        self._marker = marker
        if not location.is_local_disk:
            return
        lock = _lock(location)
        if lock is not None:
            try:
                lock.write(f"process {os.getpid()}".encode())
            except OSError as error:
                _give_back(lock, os.getpid())
                raise unwritable(location, error) from error
            self._finalizer = weakref.finalize(self, _give_back, lock, os.getpid())

    @property
    def is_exclusive(self) -> bool:
        """Whether the directory is locked, so that no other writer can use it."""
        return hasattr(self, "_finalizer")

    def is_only_one(self) -> bool:
        """Whether no other writer is known to be using the directory.

        Without locks, another writer may have started if there was already a marker, or if the
        marker has been replaced since.
        """
        if self.is_exclusive:
            return True
        if self._marker is None:
            return False
        with suppress(FileNotFoundError):
            return bytes(self._location.read(MARKER_NAME)) == self._marker
        return False

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self.is_exclusive:
            self._finalizer()


def _give_back(lock: FileLock, process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        with suppress(OSError):
            lock.remove_file()
        lock.release()


def check_free(location: Location) -> None:
    """Raise DatasetExistsError if an active writer holds a directory on a local disk.

    A killed writer also leaves `CLAIM_NAME` there, but without a lock on it.
    """
    lock = _lock(location)
    if lock is not None:
        lock.release()


def _lock(location: Location) -> FileLock | None:
    """Return a lock on the directory; None if its file system has no locks."""
    path = os.path.join(location.path, CLAIM_NAME)
    try:
        lock = try_lock(path)
    except OSError as error:
        if error.errno in NO_LOCKS:  # treat the directory like one in an object store
            os.unlink(path)
            return None
        raise unwritable(location, error) from error
    if lock is None:
        holder = ""
        with suppress(OSError):
            holder = f" by {bytes(location.read(CLAIM_NAME)).decode().strip()}"
        raise errors.DatasetExistsError(
            f"another writer is using the same directory, {location.url}: {CLAIM_NAME} in it is "
            f"locked{holder}. Write to another directory, from one process only, or finish that "
            "writer first"
        )
    return lock


PathName: TypeAlias = str | os.PathLike[str]
#: A directory, or a local and a remote one.
PathOrPair: TypeAlias = PathName | tuple[PathName, PathName]

#: Files that a killed `MDSWriter` leaves in a directory that it had locked.
_OF_A_WRITER = re.compile(
    rf"(index\.json|shard\.\d{{5,}}\.mds(\.({EXTENSIONS}))?)(\.[0-9a-f]{{32}}\.tmp)?"
)


@dataclass(frozen=True)
class Targets:
    """The directories specified by an ``out`` argument.

    Attributes
    ----------
    to_write : tuple of Location
        Directories that every file is written to.
    all : tuple of Location
        The same, plus a local directory that is specified but not written to.
    local, remote : str or None
        Local directory and URL, as given.
    """

    to_write: tuple[Location, ...]
    all: tuple[Location, ...]
    local: str | None
    remote: str | None


def find_targets(
    out: PathOrPair,
    keep_local: bool,
    storage_options: dict[str, Any] | None,
    *,
    temporary: bool = True,
) -> Targets:
    """Return the directories for an ``out`` argument.

    Parameters
    ----------
    out : str or path, or pair of them
        A local path or a URL, or a pair ``(local, remote)``.
    keep_local : bool
        Also write a local copy of a dataset at a URL.
    temporary : bool
        With `keep_local` and only a URL, write the copy to a new temporary directory.

    Raises
    ------
    InvalidArgumentError
        If `out` is none of these.
    """
    local, remote = _local_and_remote(out)
    there = [] if remote is None else [Location.of(remote, storage_options)]
    if local is None and keep_local and temporary:
        local = tempfile.mkdtemp(prefix="mdstorm-")
    here = [] if local is None else [Location.of(local)]
    if {one.url for one in here} & {one.url for one in there}:
        raise errors.InvalidArgumentError(
            f"Invalid `out` argument: both of {out!r} are the same directory. Pass only one of them"
        )
    kept = here if keep_local or not there else []
    return Targets((*kept, *there), (*here, *there), local, remote)


def _local_and_remote(out: PathOrPair) -> tuple[str | None, str | None]:
    if isinstance(out, (str, os.PathLike)) and os.fspath(out):
        path = os.fspath(out)
        return (path, None) if _is_local(path) else (None, path)
    if isinstance(out, (tuple, list)) and len(out) == 2 and out[0] and _is_local(out[0]):
        return os.fspath(out[0]), os.fspath(out[1]) if out[1] else None
    raise errors.InvalidArgumentError(
        f"Invalid `out` argument: it must be a path or a URL, or a pair of a local path and a URL, "
        f"found {out!r}"
    )


def _is_local(path: PathName) -> bool:
    return Location.of(os.fspath(path)).url.startswith("file:///")


def clear_target(location: Location, *, exist_ok: bool, first_shard: str) -> None:
    """Make room for a new dataset, or raise an error if other files are in the way.

    A local directory must be empty. Elsewhere, other files may exist next to a dataset, so only a
    dataset in the directory itself, or its first shard, is in the way.

    Parameters
    ----------
    location : Location
        The directory.
    exist_ok : bool
        Remove an existing dataset, or the files that a killed writer left. If a local directory
        holds any other file, nothing is removed.
    first_shard : str
        Name of the first file that will be written.

    Raises
    ------
    DatasetExistsError
        If files are in the way.
    """
    if location.is_local_disk and os.path.isfile(location.path):
        raise errors.DatasetExistsError(
            f"{location.url} is a file: choose a directory for the dataset"
        )
    if not location.is_local_disk and not any(map(location.exists, (INDEX_NAME, first_shard))):
        return
    names = location.list_names()
    if not names:
        return
    unfinished = location.is_local_disk and CLAIM_NAME in names
    if unfinished:
        check_free(location)
    own = _own_files(location, names)
    if unfinished:
        # The killed writer had locked the directory, so these files are its own.
        own += [name for name in names if name not in own and _OF_A_WRITER.fullmatch(name)]
    foreign = [name for name in names if name not in own and name != CLAIM_NAME]
    if foreign if location.is_local_disk else first_shard in foreign:
        others = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise errors.DatasetExistsError(
            f"Directory is not empty: {location.url} holds {', '.join(foreign[:3])}{others}, which "
            "belong to no dataset there. exist_ok=True only replaces a dataset, so nothing was "
            "removed. Remove these files yourself, or choose another directory"
        )
    if not exist_ok:
        what = "already holds a dataset"
        if unfinished:
            what = "holds the remains of a killed writer"
        raise errors.DatasetExistsError(
            f"Directory is not empty: {location.url} {what}. Choose another directory, or replace "
            "it with exist_ok=True"
        )
    claim = Claim(location)  # lets a new run start over if this process is killed meanwhile
    for name in own:
        location.remove(name)
    claim.release()
    if location.is_local_disk:
        for directory in {posixpath.dirname(name) for name in own} - {""}:
            location.child(directory).remove_directory_if_empty()


def _own_files(location: Location, names: list[str]) -> list[str]:
    """Return the files of the dataset in a directory, its index first."""
    if INDEX_NAME not in names:
        return []
    try:
        url = location.file_url(INDEX_NAME)
        index = Index.from_bytes(bytes(location.read(INDEX_NAME)), url=url)
    except errors.CorruptDatasetError:
        return []
    listed: set[str] = set()
    for shard in index.shards:
        listed |= {file.basename for file in (shard.raw_data, shard.zip_data) if file}
    # Each part of a merged dataset has its own index.
    listed |= {posixpath.join(posixpath.dirname(name), INDEX_NAME) for name in listed}
    listed.add(MARKER_NAME)
    # Only files found under this directory, even if the index lists others.
    return [INDEX_NAME, *(n for n in names if n in listed and n != INDEX_NAME)]
