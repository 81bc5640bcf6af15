"""Several datasets read as one: the streams of a `StreamingDataset`."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.datasets.describe_dataset import describe_dataset
from mdstorm_backend.datasets.sample_dataset import SampleDataset
from mdstorm_backend.display import Description
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format.array_forms import joined_form
from mdstorm_backend.format.encodings import general_encoding
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.read.shard import Shard


class JoinedDataset(SampleDataset):
    """Datasets in sequence, with samples and shards numbered consecutively.

    Samples keep the columns of their own dataset. Whole batches have the common columns.

    Parameters
    ----------
    parts : sequence of Dataset
        The datasets, at least one.
    """

    def __init__(self, parts: Sequence[Dataset]) -> None:
        #: The columns that all parts have, in the order of the first one.
        self.schema = Schema(tuple(_common(parts)))
        common = [column for column in self.schema if _are_alike(column.name, parts)]
        #: Delivered in one form, even if a part by itself would allow another.
        self.parts = tuple(part.with_columns(common) for part in parts)
        self.url = ", ".join(part.url for part in parts)
        self.shard_sizes = tuple(size for part in parts for size in part.shard_sizes)
        self.shard_bytes = tuple(size for part in parts for size in part.shard_bytes)
        prints = " ".join(part.fingerprint for part in parts)
        self.fingerprint = hashlib.sha256(prints.encode()).hexdigest()[:16]
        self._first_shards = [0, *accumulate(len(part.shard_sizes) for part in parts)]

    def _mdstorm_description(self, *, full: bool) -> Description:
        return describe_dataset(self, self.schema if full else None)

    @cached_property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""
        return all(part.is_mapped for part in self.parts)

    @property
    def bytes_ahead(self) -> int:  # type: ignore[override]
        """Bytes of shards to open ahead of use."""
        return max(part.bytes_ahead for part in self.parts)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names in `columns`, or of all columns for None, for whole batches.

        Raises
        ------
        InvalidArgumentError
            If not all parts have them, or their types differ.
        ArgumentTypeError
            If no part has one of them.
        """
        everywhere = {name: None for part in self.parts for name in part.schema.names}
        names = tuple(everywhere if columns is None else columns)
        if unknown := [name for name in names if name not in everywhere]:
            raise ArgumentTypeError(
                f"no stream has columns {unknown}; the streams have {list(everywhere)}"
            )
        differing = [name for name in names if not _are_alike(name, self.parts)]
        if differing:
            common = [name for name in self.schema.names if _are_alike(name, self.parts)]
            remedy = f"Read those in common, columns={common}, or" if common else "Read"
            raise InvalidArgumentError(
                f"the streams differ in the columns {differing}: not all of {self.url} have them, "
                "or not with one type, and a batch needs the same columns from each. "
                f"{remedy} single samples"
            )
        ordered = self.schema.names if columns is None else names
        for part in self.parts:
            part.select(ordered)
        return ordered

    def shard(self, number: int) -> Shard:
        """Open shard `number` of all."""
        part = bisect_right(self._first_shards, number) - 1
        return self.parts[part].shard(number - self._first_shards[part])

    def begin_shard(self, number: int) -> Shard:
        """Open shard `number` of all, of which no more than the beginning may be there."""
        part = bisect_right(self._first_shards, number) - 1
        return self.parts[part].begin_shard(number - self._first_shards[part])

    def find_open(self, number: int) -> Shard | None:
        """Return shard `number` of all if it is open."""
        part = bisect_right(self._first_shards, number) - 1
        return self.parts[part].find_open(number - self._first_shards[part])

    def release(self) -> None:
        """Close shards that are kept open; they are reopened when needed."""
        for part in self.parts:
            part.release()


def _common(parts: Sequence[Dataset]) -> list[Column]:
    """Return the columns that all parts have."""
    first, *others = (part.schema for part in parts)
    return [
        _joined([column, *(other[column.name] for other in others)])
        for column in first
        if all(column.name in other for other in others)
    ]


def _are_alike(name: str, parts: Sequence[Dataset]) -> bool:
    """Whether all parts have a column, with one type."""
    columns = [part.schema.get(name) for part in parts]
    return None not in columns and len({_kind(c) for c in columns if c is not None}) == 1


def _kind(column: Column) -> tuple[str, str]:
    return column.parsed_encoding.kind, str(column.arrow_type)


def _joined(columns: Sequence[Column]) -> Column:
    """Return the column of all parts together."""
    first = columns[0]
    encodings = sorted({column.encoding for column in columns})
    return replace(
        joined_form(columns),
        encoding=first.encoding if len(encodings) == 1 else general_encoding(encodings),
        null_count=sum(column.null_count for column in columns),
        element_null_count=sum(column.element_null_count for column in columns),
    )
