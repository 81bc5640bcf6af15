"""Read a dataset's index, and keep a copy of it in a named cache directory."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.cache.cache_options import CacheOptions
from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record
from mdstorm_backend.cache.download import try_again, watched
from mdstorm_backend.errors import (
    CorruptDatasetError,
    CredentialsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
    StorageError,
)
from mdstorm_backend.format.shard_info import INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.local_files import NotAFileError
from mdstorm_backend.tables import other_format

_logger = logging.getLogger(__name__)


def read_index(location: Location, options: CacheOptions | None = None) -> tuple[bytes, str | None]:
    """Return the content of a dataset's ``index.json``, and when it was written.

    If `options` names a directory, a copy is kept in it, as other readers of the format do. While
    the storage cannot be reached, denies access, or has no dataset any more, the copy is used, with
    a warning in the log.

    Parameters
    ----------
    location : Location
        Where the dataset is.
    options : CacheOptions, optional
        Attempts, timeout, and the directory.

    Returns
    -------
    content : bytes
        The file.
    written : str or None
        As `Location.modified` says; None where to ask costs nothing, and for the copy.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    InvalidArgumentError
        If the directory holds another dataset, which was not put there by this cache.
    CredentialsError, StorageError
        If the storage denies access or fails, or the directory cannot be used.
    """
    options = options or CacheOptions()
    named = options.directory
    if named is None or (location.is_local_disk and os.path.abspath(location.path) == named):
        return _read(location, options)
    directory = CacheDirectory(named)
    try:
        content, written = _read(location, options)
    except (CredentialsError, DatasetNotFoundError, StorageError) as error:
        copy = _content(directory.file(INDEX_NAME))
        if copy is None or directory.described().get("url", location.url) != location.url:
            raise
        _logger.warning("%s; reading the copy of the index in %s instead", error, named)
        return copy, None
    with directory.used():
        _keep(directory, location.url, content)
    return content, written


def _read(location: Location, options: CacheOptions) -> tuple[bytes, str | None]:
    url = location.file_url(INDEX_NAME)

    def attempt() -> tuple[bytes, str | None]:
        if location.is_local_disk:
            return bytes(location.read(INDEX_NAME)), None
        return watched(lambda: location.read_dated(INDEX_NAME), timeout=options.timeout)

    try:
        return try_again(attempt, url=url, attempts=options.retry)
    except NotAFileError as error:
        raise CorruptDatasetError.of_file(url, f"is not a file ({error.strerror})") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        found = "" if location.is_local_disk else f" ({error})"
        raise DatasetNotFoundError(
            _unfinished(location)
            or other_format(location)
            or f"there is no dataset at {location.url}: it has no {INDEX_NAME}{found}. Check the "
            "URL; if the dataset was deleted or its job failed, write it again",
            url=location.url,
        ) from error


def _unfinished(location: Location) -> str | None:
    """Return what there is to say of a directory in which a job has begun to write a dataset."""
    with suppress(MDStormError, OSError):
        if location.exists(MARKER_NAME):
            return (
                f"there is no dataset at {location.url} yet: the job that writes it is not "
                f"finished, or was killed, since there is no {INDEX_NAME}. Wait for it, or write "
                "the dataset again"
            )
    return None


def _keep(directory: CacheDirectory, url: str, content: bytes) -> None:
    """Keep a copy in the directory, unless one of the same meaning is there."""
    path = directory.file(INDEX_NAME)
    present = _content(path)
    if present is not None and _same(present, content):
        return
    if present is not None and FileIdentity.at(path) != Record.at(directory.index_note).files.get(
        INDEX_NAME
    ):
        raise InvalidArgumentError(
            f"{path} is not the index of {url}, but of another dataset or another state of it, "
            "and this cache did not put it there. Choose another directory, or remove the files "
            "in this one"
        )
    if not directory.described():
        directory.make(url, "")
    directory.keep_index(path, content)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _same(first: bytes, second: bytes) -> bool:
    if first == second:
        return True
    try:
        return bool(parse_json(first) == parse_json(second))
    except ValueError:
        return False
