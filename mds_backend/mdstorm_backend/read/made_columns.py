"""Columns that a dataset does not store: numbers of rows, and the files that a column names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import choose_among
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format import Batch, Column, Schema, Values
from mdstorm_backend.read.block import Located

#: Sample numbers within a dataset, in any order.
SampleNumbers: TypeAlias = range | npt.NDArray[np.int64]


@dataclass(frozen=True)
class MadeColumn:
    """Makes a column from the positions of rows, or from other columns.

    Attributes
    ----------
    column : Column
        The column, as it appears in the schema.
    make : callable
        Returns the values for located rows, whose stored columns are in a batch.
    needs : tuple of str
        Names of the stored columns that it is made from.
    """

    column: Column
    make: Callable[[Sequence[Located], Batch], Values]
    needs: tuple[str, ...] = ()


def row_numbers(name: str, in_whole: Callable[[SampleNumbers], SampleNumbers]) -> MadeColumn:
    """Return a column with the numbers of rows, from 0 in the stored order of a whole dataset.

    Parameters
    ----------
    name : str
        Name of the column, int64.
    in_whole : callable
        Maps numbers of rows in this dataset to their numbers in the whole dataset.
    """
    column = Column(name, "int64", spark_type="long", nullable=False)
    return MadeColumn(column, partial(_numbers, in_whole))


def paths_of_files(column: Column) -> MadeColumn:
    """Return a column of paths, in whose place `FileReader` puts the content of the files."""
    path = column.origin.path_column
    return MadeColumn(column, partial(_values, path), needs=(path,))


def _numbers(
    in_whole: Callable[[SampleNumbers], SampleNumbers], parts: Sequence[Located], batch: Batch
) -> Values:
    numbers = [np.empty(0, np.int64), *(part.stored_numbers() for part in parts)]
    return np.asarray(in_whole(np.concatenate(numbers)))


def _values(name: str, parts: Sequence[Located], batch: Batch) -> Values:
    return batch[name]


def check_new(argument: str, names: Iterable[str], schema: Schema, url: str) -> None:
    """Raise InvalidArgumentError if an argument adds a column whose name a dataset has."""
    if taken := [name for name in names if name in schema]:
        raise InvalidArgumentError(
            f"{argument} adds a column {taken[0]!r}, but {url} has one of this name: choose "
            "another name"
        )


def file_columns(schema: Schema, files: Mapping[str, str] | None, url: str) -> list[Column]:
    """Return the columns of contents that ``files=`` adds to columns of a dataset.

    Raises
    ------
    InvalidArgumentError
        If a column of paths does not exist, or holds other values than strings.
    """
    columns = []
    for name, path in (files or {}).items():
        column = schema.get(path)
        if column is None or not pa.types.is_string(column.arrow_type):
            what = "does not exist" if column is None else f"is of type {column.shown_type}"
            nearest = choose_among(path, schema.names) if column is None else ""
            raise InvalidArgumentError(
                f"files={{{name!r}: {path!r}}} reads paths from column {path!r} of {url}, "
                f"which {what}{nearest or ': name a column of strings'}"
            )
        origin = replace(column.origin, path_column=path)
        nulls = column.null_count
        columns.append(Column(name, "bytes", "binary", null_count=nulls, origin=origin))
    return columns
