"""Hive partitions: columns in directory names, such as ``year=2024/month=1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from mdstorm_backend.errors import EncodingError, UnsupportedTableError

#: The directory name that Hive and Spark use for a null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_columns(
    names: Sequence[str], url: str
) -> tuple[list[pa.Field], list[dict[str, Any]]]:
    """Return the partition columns in file paths, and their values for each file.

    A column holds integers if all of its values are integers or null, otherwise strings.

    Parameters
    ----------
    names : sequence of str
        File paths relative to the dataset.
    url : str
        The dataset, for error messages.

    Raises
    ------
    UnsupportedTableError
        If files have different partition columns.
    """
    texts = [partition_texts(name) for name in names]
    first = list(texts[0])
    for name, of_file in zip(names, texts, strict=True):
        if list(of_file) != first:
            raise UnsupportedTableError(
                f"{url}/{name} is partitioned by {list(of_file)}, but {url}/{names[0]} by {first}: "
                "all files in a dataset need the same partition columns. Move the file, or pass "
                "the files as a list to read them without partition columns",
                url=f"{url}/{name}",
            )
    fields = []
    for column in first:
        values = {of_file[column] for of_file in texts}
        is_integer = values != {None} and all(_is_integer(v) for v in values if v is not None)
        type_ = pa.int64() if is_integer else pa.string()
        fields.append(pa.field(column, type_, nullable=None in values))
    shared: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for of_file in texts:
        shared.setdefault(
            tuple(of_file.values()),
            {
                field.name: int(text) if text is not None and field.type == pa.int64() else text
                for field, text in zip(fields, of_file.values(), strict=True)
            },
        )
    return fields, [shared[tuple(of_file.values())] for of_file in texts]


def _is_integer(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63  # int("1_0") is 10, as in Petastorm
    except ValueError:
        return False


def partition_texts(name: str) -> dict[str, str | None]:
    """Return the partition values in a path's directory names, as strings by column.

    None means null.

    Raises
    ------
    EncodingError
        If a percent-encoded name or value is not UTF-8.
    """
    directories = name.split("/")[:-1]
    pairs = (directory.partition("=") for directory in directories if "=" in directory)
    try:
        return {
            unquote(column, errors="strict"): None
            if text == _NULL
            else unquote(text, errors="strict")
            for column, _, text in pairs
        }
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"the directory names of {name} hold a percent-encoded partition value that is not "
            f"UTF-8 ({error}). Rename the directory, as Spark would write it"
        ) from error
