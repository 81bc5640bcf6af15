"""Read a dataset as the decoded fields of its Unischema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm._datasets.common_metadata import common_metadata_of
from mdstorm._datasets.decoded_shard import DecodedShard
from mdstorm._datasets.field_decoders import DecodedField, decoded_field
from mdstorm._datasets.float_decimals import with_floats
from mdstorm._datasets.metadata_keys import UNISCHEMA_EXTRA, UNISCHEMA_KEY
from mdstorm._datasets.schema_json import unischema_from_json, unischema_to_json
from mdstorm._pickles.schema_pickle import load_unischema
from mdstorm.errors import MissingColumnError
from mdstorm.unischema import Unischema
from mdstorm_backend.datasets import Dataset, SampleDataset
from mdstorm_backend.format import Schema
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import OpenShards, Shard


def stored_unischema(source: Any) -> Unischema | None:
    """Return the Unischema that a dataset was written with; None if it has none.

    Parameters
    ----------
    source : ParquetDataset or Dataset
        Parquet files with Petastorm's metadata, or an MDS dataset that mdstorm made of such rows.
        Other sources have none.

    Raises
    ------
    UnsafePickleError
        If the pickled metadata is not a schema.
    CorruptDatasetError
        If the index holds something else, or ``_common_metadata`` was truncated.
    """
    if isinstance(source, ParquetDataset):
        data = common_metadata_of(source).get(UNISCHEMA_KEY)
        return None if data is None else load_unischema(data)
    value = source.index.extra.get(UNISCHEMA_EXTRA) if isinstance(source, Dataset) else None
    return None if value is None else unischema_from_json(value, url=source.url)


def decoded(source: Any, unischema: Unischema) -> Any:
    """Return a dataset whose columns are the decoded fields of its schema.

    Parameters
    ----------
    source : ParquetDataset or Dataset
        What Petastorm wrote, or what became of it in MDS.
    unischema : Unischema
        Its schema, or a view of that.

    Returns
    -------
    DecodedSource or Dataset
        A source with one column per field, in the order of the schema. Arrays are decoded, scalars
        have their NumPy type. Images stay encoded until readers need their pixels: see
        `Column.is_late`. It is `source` itself where nothing is left to do.

    Raises
    ------
    MissingColumnError
        If a field is not stored.
    """
    check_stored(
        unischema, source.url, source.schema.names, "Leave the field out with schema_fields=[…]"
    )
    source = with_declared_partitions(source, unischema)
    result = DecodedSource(source, unischema)
    nothing_to_do = tuple(result.schema) == tuple(source.schema) and not result.decodes
    return source if nothing_to_do else result


def check_stored(unischema: Unischema, url: str, names: Sequence[str], remedy: str) -> None:
    """Raise MissingColumnError, which ends with `remedy`, unless `names` has each field."""
    missing = [name for name in unischema.fields if name not in names]
    if missing:
        raise MissingColumnError(
            f"{url} has no column {missing[0]!r}, which the schema names: it has {list(names)}. "
            f"{remedy}",
            column=missing[0],
        )


def with_float_decimals(source: Any, dtype: str) -> Any:
    """Return a dataset whose decimals, and arrays of decimals, are floating-point numbers.

    Parameters
    ----------
    source : SampleSource
        Any dataset, decoded or as it is stored; returned unchanged if it has no decimals.
    dtype : {"float64", "float32"}
        What they become.
    """
    is_decoded = isinstance(source, DecodedSource)
    stored, unischema = (source.stored, source.unischema) if is_decoded else (source, None)
    result = DecodedSource(stored, unischema, dtype)
    return source if tuple(result.schema) == tuple(source.schema) else result


def with_declared_partitions(source: Any, unischema: Unischema) -> Any:
    """Return a Parquet dataset whose partition columns are strings where the schema says so.

    Otherwise directory names that look like integers are read as integers, and ``01`` would become
    ``1``. Other datasets are returned unchanged.
    """
    if not isinstance(source, ParquetDataset):
        return source
    texts = [
        name
        for name in source.partition_columns
        if name in unischema.fields and unischema.fields[name].numpy_dtype in (np.str_, str)
    ]
    return source.with_text_partitions(texts)


class DecodedSource(SampleDataset):
    """A source whose columns are the fields of a schema. Safe to share between threads.

    Parameters
    ----------
    stored : SampleSource
        The dataset.
    unischema : Unischema or None
        Its schema; every field is stored. None: the columns are the fields.
    decimals : {"float64", "float32", None}
        What decimals and arrays of them are read as; None leaves them.

    Attributes
    ----------
    stored : SampleSource
        The dataset as it is stored.
    unischema : Unischema or None
        The schema.
    """

    def __init__(
        self, stored: Any, unischema: Unischema | None, decimals: str | None = None
    ) -> None:
        self.stored: SampleDataset = stored
        self.url = self.stored.url
        self.shard_sizes = self.stored.shard_sizes
        self.shard_bytes = self.stored.shard_bytes  # encoded
        self.unischema = unischema
        self._decimals = decimals
        fields = _fields(stored, unischema)
        if decimals is not None:
            fields = {name: with_floats(field, decimals) for name, field in fields.items()}
        self._fields = fields
        self.schema = Schema(tuple(field.column for field in self._fields.values()))
        self._open: OpenShards[DecodedShard] = OpenShards()
        stated = None if unischema is None else unischema_to_json(unischema)
        text = stored.fingerprint + json.dumps(stated, sort_keys=True) + (decimals or "")
        self.fingerprint = hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodedSource, (self.stored, self.unischema, self._decimals)

    @property
    def decodes(self) -> bool:
        """Whether any field is more than its stored values."""
        return any(field.decode is not None for field in self._fields.values())

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""
        return self.stored.is_mapped and not self.decodes

    def over(self, stored: Any) -> DecodedSource:
        """Return the same of a part of the stored samples."""
        return DecodedSource(stored, self.unischema, self._decimals)

    def shard(self, number: int) -> Shard:
        """Open a shard."""
        return self._open.get(
            number, lambda n: DecodedShard(self.stored.shard(n), self._fields, self.url)
        )

    def find_open(self, number: int) -> Shard | None:
        """Return a shard if it is open."""
        return self._open.find(number)

    def release(self) -> None:
        """Close shards that are kept open; they are reopened when needed."""
        self._open.release()
        self.stored.release()


def _fields(stored: Any, unischema: Unischema | None) -> dict[str, DecodedField]:
    if unischema is None:
        return {column.name: DecodedField(column, None) for column in stored.schema}
    return {
        name: decoded_field(field, stored.schema[name]) for name, field in unischema.fields.items()
    }
