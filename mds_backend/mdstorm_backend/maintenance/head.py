"""Read the first rows of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.batch import as_arrow
from mdstorm_backend.maintenance.plain_json import plain


@dataclass(frozen=True)
class Stored:
    """A value that is shown as its stored bytes, such as an image or a pickle.

    Attributes
    ----------
    encoding : str
        MDS encoding, such as ``"jpeg"``.
    data : bytes
        The stored bytes.
    """

    encoding: str
    data: bytes

    def __str__(self) -> str:
        return f"<{self.encoding}, {len(self.data)} bytes>"


@dataclass(frozen=True)
class Head:
    """The first rows of a dataset.

    Attributes
    ----------
    url : str
        URL of the dataset.
    columns : tuple of str
        Names of the columns.
    rows : tuple of dict
        One dict per row, from column name to value: Python objects, None for null, and `Stored` for
        images and pickles.
    """

    url: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return one JSON object per row; images and pickles are the stored bytes as base64."""
        return [
            {
                name: plain(value.data if isinstance(value, Stored) else value)
                for name, value in row.items()
            }
            for row in self.rows
        ]


def head(
    url: str,
    n: int = 5,
    *,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Head:
    """Read the first `n` rows of the dataset at `url`.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    n : int
        Number of rows to read; fewer if the dataset has fewer.
    columns : sequence of str, optional
        Columns to read, in that order; all by default.
    storage_options : dict, optional
        Options of the fsspec file system.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If it cannot be parsed.
    ArgumentTypeError
        If the dataset does not have one of the columns.
    UnsupportedEncodingError
        If this version cannot decode one of them.
    """
    if n < 0:
        raise InvalidArgumentError(f"cannot read {n} rows: pass a number of at least 0")
    dataset = open_dataset(url, storage_options=storage_options)
    names = dataset.select(columns)
    rows: list[dict[str, Any]] = []
    for number, samples in enumerate(dataset.shard_sizes):
        count = min(samples, n - len(rows))
        if count:
            rows += _rows(dataset, number, count, names)
        if len(rows) == n:
            break
    return Head(dataset.url, names, tuple(rows))


def _rows(
    dataset: Dataset, number: int, count: int, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    batch = dataset.shard(number).read(np.arange(count), names, exact_nulls=True)
    columns = {}
    for name, values in batch.items():
        column: list[Any] = (
            list(values)
            if isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype == object)
            else as_arrow(values).to_pylist()
        )
        encoding = dataset.schema[name].parsed_encoding
        if not encoding.is_shown:
            column = [value if value is None else Stored(encoding.text, value) for value in column]
        columns[name] = column
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
