"""Sizes and versions of the files that columns name: a run logs them, and they are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mdstorm.errors import DatasetChangedError, MissingFileError
from mdstorm_backend.base import map_files
from mdstorm_backend.datasets import AddedColumns, DatasetView
from mdstorm_backend.storage import NamedFiles


def file_versions(dataset: Any) -> dict[str, str]:
    """Return the size and version of each file that a loader reads, by its path in the data.

    Each takes a request, or a look at the local file. A file that does not exist has none.
    """
    while not isinstance(dataset, AddedColumns) or dataset.named_files is None:
        if not isinstance(dataset, DatasetView):
            return {}
        dataset = dataset.source
    source: Any = dataset.source
    reader, files = dataset.file_reader, dataset.named_files
    assert reader is not None
    assert files is not None
    columns = sorted({*reader.columns.values()})
    table = source.to_table(columns)
    paths = [path for name in columns for path in table[name].unique().to_pylist()]
    paths = [path for path in dict.fromkeys(paths) if path is not None]
    return dict(zip(paths, map_files(partial(_version_of, files), paths), strict=True))


def check_versions(added: AddedColumns, versions: Mapping[str, Any]) -> None:
    """Make a dataset raise DatasetChangedError if it reads a file that has changed.

    Parameters
    ----------
    added : AddedColumns
        A dataset with columns of the content of files, which is changed.
    versions : mapping of str to list of str
        The versions that the files had, by path; other files are not compared.
    """
    reader, files = added.file_reader, added.named_files
    assert reader is not None
    assert files is not None
    fetch = partial(_fetch_logged, reader.fetch, files, versions)
    added.file_reader = replace(reader, fetch=fetch)


def _version_of(files: NamedFiles, path: str) -> str:
    try:
        return files.identity(path)
    except MissingFileError:
        return ""


def _fetch_logged(
    fetch: Callable[[str], bytes], files: NamedFiles, versions: Mapping[str, Any], path: str
) -> bytes:
    """Return the content of a file that has not changed since it was logged."""
    logged = versions.get(path, [])
    if logged and {found := _version_of(files, path)} != {*logged}:
        raise DatasetChangedError(
            f"{path} has changed since the run: it had the size and version {logged}, and has "
            f"{found!r} now. Restore the file to see what the run read",
            url=path,
        )
    return fetch(path)
