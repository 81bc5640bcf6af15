"""Table names: ``catalog.schema.table``, with or without backticks, and ``uc://`` URLs."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from mdstorm_backend.errors import DatasetNotFoundError, InvalidArgumentError, UnsupportedURLError
from mdstorm_backend.storage.urls import normalize_url

#: The scheme of table URLs.
SCHEME = "uc://"
_QUOTED = r"`(?:[^`]|``)+`"
_PART = re.compile(rf"{_QUOTED}|[^`./\s]+")
_PARTS = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
#: Matches a part of a name that cannot be mistaken for a path.
_BARE = re.compile(rf"{_QUOTED}|[A-Za-z_][A-Za-z0-9_-]*")
#: File extensions. A string that ends with one is not a table name.
_FILES = "avro arrow csv feather gz idx json jsonl mds npy orc parquet tar txt zip zst"


class TableName(NamedTuple):
    """The name of a table in a catalog."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        """Return the name in SQL syntax, with backticks where they are needed."""
        return ".".join(map(_quoted, self))

    @property
    def url(self) -> str:
        """The name as a URL; equal names have the same URL."""
        return f"{SCHEME}{self}"

    @property
    def full(self) -> str:
        """The name as Unity Catalog's API expects it, without backticks."""
        return ".".join(self)


def table_name(text: Any) -> TableName | None:
    """Parse a table name or a ``uc:`` URL; return None for anything else, such as a path.

    A string with three parts is a table name unless a file or directory with this path exists. With
    the scheme ``uc:``, it is always a table name.

    Raises
    ------
    UnsupportedURLError
        If a string with that scheme, or with backticks, does not have three parts.
    """
    if not isinstance(text, str):
        return None
    has_scheme = text[: len(SCHEME)].lower() == SCHEME
    name = text[len(SCHEME) :].rstrip("/") if has_scheme else text
    parts = _PART.findall(name) if _PARTS.fullmatch(name) else []
    is_name = has_scheme or (bool(parts) and all(map(_BARE.fullmatch, parts)))
    if not is_name or (not has_scheme and os.path.exists(text)):
        return None
    if len(parts) == 3:
        return TableName(*(_unquoted(part) for part in parts))
    if has_scheme or "`" in text:
        by_spark = f". {read_by_spark(name)} if it is a table or a view" if parts else ""
        raise UnsupportedURLError(
            f"{text!r} is not a table name, which has three parts: write catalog.schema.table, "
            f"with backticks around a part that contains dots or spaces{by_spark}"
        )
    return None


def hint_of_parts(text: Any, *, fewest: int = 2) -> str:
    """Return a hint for a missing path that may have been meant as a table name.

    The string must have at least `fewest` parts and at most two, as in ``schema.table``, and no
    file extension, and nothing may exist at that path. Otherwise the hint is empty.
    """
    parts = text.split(".") if isinstance(text, str) else []
    is_name = fewest <= len(parts) <= 2 and all(map(_BARE.fullmatch, parts))
    if not is_name or parts[-1].lower() in _FILES.split() or os.path.lexists(text):
        return ""
    if not parts[1:]:
        return f". {read_by_spark(text)} if it is a table or a view"
    return (
        f". {read_by_spark(text)} if it is a table or a view. An Iceberg table of another catalog "
        f"is opened by its object: pyiceberg.catalog.load_catalog(…).load_table({text!r}). In "
        f"Unity Catalog, its name has three parts: catalog.{text}"
    )


def read_by_spark(name: str | TableName) -> str:
    """Return the hint that Spark can read the table."""
    parts = name if isinstance(name, TableName) else map(_unquoted, _PART.findall(name))
    # Spark needs more backticks than Unity Catalog, such as around `events-2024`.
    plain = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
    in_sql = ".".join(one if plain.fullmatch(one) else _in_backticks(one) for one in parts)
    return f"With Spark, use make_spark_converter(spark.table({in_sql!r}))"


def check_parts(text: Any, *, fewest: int = 2) -> None:
    """Raise DatasetNotFoundError for a missing path that may have been meant as a table name."""
    if hint := hint_of_parts(text, fewest=fewest):
        url = normalize_url(text)
        raise DatasetNotFoundError(f"there is no dataset at {url}: check the path{hint}", url=url)


def check_no_table_name(text: Any) -> None:
    """Raise DatasetNotFoundError for a table name where only MDS datasets can be read.

    Raises
    ------
    DatasetNotFoundError
        If `text` is a table name; the message explains how to read or convert the table. Also if it
        may have been meant as one; see `check_parts`.
    """
    check_parts(text)
    if (name := table_name(text)) is not None:
        raise DatasetNotFoundError(
            f"there is no MDS dataset at {text!r}, but it is a table name. Read the table "
            f"in place with mdstorm.make_batch_reader({str(name)!r}), or convert it with: "
            f"mdstorm convert {name.url!r} DST",
            url=name.url,
        )


def check_destination(text: Any) -> None:
    """Raise InvalidArgumentError if the destination of a dataset is a table name.

    From then on, a directory with such a path would be read instead of the table.
    """
    if (name := table_name(text)) is not None:
        raise InvalidArgumentError(
            f"the destination {text!r} is a table name, but a dataset is written to a "
            f"directory: pass its URL, or './{name.full}' for a directory with this name"
        )


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _in_backticks(part)


def _in_backticks(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
