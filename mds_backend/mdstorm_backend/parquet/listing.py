"""List the files of a Parquet dataset, and read partition values from directory names.

Hive partitions are columns whose values are in directory names, ``year=2024/month=1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base.threads import map_files
from mdstorm_backend.parquet.footers import ParquetFileInfo, PartitionValue
from mdstorm_backend.storage import Location, modification_of
from mdstorm_backend.tables.layouts import check_layout

_PATTERN = re.compile(r"[*?\[]")
#: Endings of files beside the data that never belong to it.
_OTHER_FILES = (".crc", "_$folder$")
#: Storages' names for a value that changes with the content of a file.
_TAGS = ("ETag", "etag", "checksum", "md5Hash", "content_md5")

#: URL of a file, and its description by fsspec.
_Found: TypeAlias = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class FoundFiles:
    """The files of a dataset.

    Attributes
    ----------
    url : str
        The requested URLs.
    location : Location
        Directory that holds all files, at any depth.
    files : tuple of ParquetFileInfo
        The files in order, at least one.
    is_directory : bool
        Whether a single directory was requested, so that paths may include partitions.
    """

    url: str
    location: Location
    files: tuple[ParquetFileInfo, ...]
    is_directory: bool


def locate(
    urls: str | Sequence[str], storage_options: dict[str, Any] | None, filesystem: Any
) -> list[Location]:
    """Return the locations of URLs; for arguments see `open_parquet`.

    Raises
    ------
    ArgumentTypeError
        If a URL is not a string.
    InvalidArgumentError
        If there are no URLs, or they are on different storages.
    """
    given = [urls] if isinstance(urls, str) else list(urls)
    if not given:
        raise errors.InvalidArgumentError("dataset url list must be non-empty.")
    if not all(isinstance(url, str) for url in given):
        raise errors.ArgumentTypeError(f"URLs of Parquet files must be strings, found {given!r}")
    locations = [Location.of(url, storage_options, filesystem) for url in given]
    check_one_storage(locations)
    return locations


def find_files(locations: Sequence[Location], *, check: bool = True) -> FoundFiles:
    """List the files of `locations`; with `check`, apply `check_layout` to directories.

    Raises
    ------
    DatasetNotFoundError
        If a location does not exist or has no files.
    UnsupportedTableError
        If some of the files may not belong to the data.
    """
    found = map_files(partial(_behind, check=check), locations)
    is_directory = len(locations) == 1 and found[0][1]
    if is_directory:
        base = locations[0]
    else:
        base = common_directory([url for files, _ in found for url, _ in files], locations[0])
    infos = tuple(_info(url, info, base) for files, _ in found for url, info in files)
    return FoundFiles(shown(locations), base, infos, is_directory)


def _behind(location: Location, *, check: bool) -> tuple[list[_Found], bool]:
    """Return the files of one URL, and whether it is a directory."""
    url, info = location.url, location.describe()
    if info is None and _PATTERN.search(url):
        files = [file for match in _matches(location) for file in _behind(match, check=check)[0]]
    elif info is None:
        raise errors.DatasetNotFoundError(
            f"there is neither a Parquet file nor a directory of them at {url} (Passed non-file "
            "path): check the URL, and whether this machine sees the storage",
            url=url,
        )
    elif info["type"] == "directory":
        listed = location.list_files()
        if check:
            check_layout(location, [name for name, _ in listed])
        files = [(location.file_url(name), info) for name, info in listed if not is_hidden(name)]
    else:
        files = [(url, info)]
    if not files:
        raise errors.DatasetNotFoundError(
            f"{url} has no Parquet files (names that begin with '_' or '.' are ignored). Check "
            "the URL, and whether the job that wrote them has ended",
            url=url,
        )
    return files, info is not None and info["type"] == "directory"


def _matches(location: Location) -> Iterable[Location]:
    """Return the locations that match the pattern in a URL."""
    first = _PATTERN.search(location.url)
    assert first is not None
    root, _, _ = location.url[: first.start()].rpartition("/")
    above = Location(root, location.storage_options, location.filesystem)
    names = above.list_matches(location.url[len(root) + 1 :])
    return [above.child(name) for name in names if not is_hidden(name)]


def is_hidden(name: str) -> bool:
    """Whether a path relative to the dataset is excluded from the data by its name."""
    *directories, file = name.split("/")
    return (
        file.startswith(("_", "."))
        or file.endswith(_OTHER_FILES)
        # The name of a partition column may begin with them.
        or any(part.startswith(("_", ".")) and "=" not in part for part in directories)
    )


def check_one_storage(locations: Sequence[Location]) -> None:
    """Raise InvalidArgumentError unless all locations are on one storage."""
    storages = sorted({_storage(location.url) for location in locations})
    if len(storages) > 1:
        raise errors.InvalidArgumentError(
            f"a list must contain url with the same scheme and netloc, found {storages}: read "
            "each of them as a dataset of its own"
        )


def _storage(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.split('/')[0]}"


def common_directory(urls: Sequence[str], one: Location) -> Location:
    """Return the deepest directory that holds all files."""
    common = urls[0].split("/")[:-1]
    for url in urls[1:]:
        parts = url.split("/")[:-1]
        pairs = zip(common, parts, strict=False)
        common = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return Location("/".join(common), one.storage_options, one.filesystem)


def _info(url: str, info: dict[str, Any], base: Location) -> ParquetFileInfo:
    tags = [str(info[key]) for key in _TAGS if info.get(key)]
    identity = " ".join([modification_of(info), *tags]).strip()
    return ParquetFileInfo(url[len(base.url) + 1 :], int(info["size"]), identity)


def shown(locations: Sequence[Location]) -> str:
    """Return the URLs of locations for display; only the first three are spelled out."""
    first = ", ".join(location.url for location in locations[:3])
    return first if len(locations) <= 3 else f"{first} and {len(locations) - 3} others"


#: Hive's and Spark's name in directories for the value null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_values(names: Sequence[str], url: str) -> list[dict[str, PartitionValue]]:
    """Return the values of the partition columns of each file; all files have the same columns.

    The values of a column are integers if all of them are integers, otherwise strings; None for
    null.

    Parameters
    ----------
    names : sequence of str
        Paths of the files relative to the dataset.
    url : str
        The dataset, for error messages.

    Raises
    ------
    CorruptDatasetError
        If files have different partition columns.
    """
    texts = [partition_texts(name) for name in names]
    if not any(texts):
        return [{} for _ in names]
    first = list(texts[0])
    for name, found in zip(names, texts, strict=True):
        if list(found) != first:
            raise errors.CorruptDatasetError(
                f"{url}/{name} is partitioned by {list(found)}, but {url}/{names[0]} by {first}: "
                "all files of a dataset need the same partition columns. Move it, or pass the "
                "files as a list to read them without partition columns",
                url=f"{url}/{name}",
            )
    integers = {column for column in first if all(_is_integer(found[column]) for found in texts)}
    shared: dict[tuple[str | None, ...], dict[str, PartitionValue]] = {}
    for found in texts:
        typed: dict[str, PartitionValue] = {
            column: int(text) if text is not None and column in integers else text
            for column, text in found.items()
        }
        shared.setdefault(tuple(found.values()), typed)
    return [shared[tuple(found.values())] for found in texts]


def partition_texts(name: str) -> dict[str, str | None]:
    """Return the partition values in the directory names of a path, as strings by column.

    None stands for null.
    """
    directories = name.split("/")[:-1]
    pairs = (directory.partition("=") for directory in directories if "=" in directory)
    return {unquote(column): None if text == _NULL else unquote(text) for column, _, text in pairs}


def partition_field(name: str, partitions: Sequence[Mapping[str, PartitionValue]]) -> pa.Field:
    """Return the Arrow field of a partition column."""
    values = [partition[name] for partition in partitions]
    is_text = any(isinstance(value, str) for value in values) or not any(
        isinstance(value, int) for value in values
    )
    return pa.field(name, pa.string() if is_text else pa.int64(), nullable=None in values)


def _is_integer(text: str | None) -> bool:
    if text is None:
        return True
    try:
        return -(2**63) <= int(text) < 2**63  # "1_0" is 10, as in Petastorm
    except ValueError:
        return False
