"""Hive partitions: columns whose values are in directory names, ``year=2024/month=1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.parquet.row_groups import PartitionValue

#: The name that Hive and Spark give the directory of rows whose value is null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_values(names: Sequence[str], url: str) -> list[dict[str, PartitionValue]]:
    """Return the values of the partition columns for each file, with the same columns for all.

    The values of a column are integers if each of them is one, otherwise strings; None for null.

    Parameters
    ----------
    names : sequence of str
        Paths of the files relative to the dataset.
    url : str
        The dataset, for error messages.

    Raises
    ------
    CorruptDatasetError
        If files are below directories of different columns.
    """
    texts = [partition_texts(name) for name in names]
    if not any(texts):
        return [{} for _ in names]
    first = list(texts[0])
    for name, found in zip(names, texts, strict=True):
        if list(found) != first:
            raise CorruptDatasetError(
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
    """Return the partition columns in the directories of a path, with their values as strings.

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
