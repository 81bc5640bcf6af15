"""Read a dataset with the fields of its Unischema decoded."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm import codecs
from mdstorm._datasets import petastorm_metadata
from mdstorm._datasets.field_decoders import (
    AS_STORED,
    DecodedField,
    Floats,
    cast_floats,
    decoded_field,
    with_floats,
)
from mdstorm._pickles import load_unischema
from mdstorm._schema import NamedSparkType, UnischemaField, spark_type_json
from mdstorm.errors import CorruptDatasetError, DecodeFieldError, MDStormError
from mdstorm.unischema import Unischema
from mdstorm_backend.datasets import (
    Dataset,
    DatasetView,
    Filters,
    Mask,
    SampleDataset,
    fingerprints_of,
)
from mdstorm_backend.display import Description
from mdstorm_backend.format import Batch, Column, Schema, Values, as_arrow, numpy_dtype, take_values
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import OpenShards, Rows, Shard, scalars_to_numpy

#: Field types that are not NumPy types.
_PYTHON_TYPES: dict[str, Any] = {
    "Decimal": Decimal,
    "python bool": bool,
    "python bytes": bytes,
    "python float": float,
    "python int": int,
    "python str": str,
}
#: NumPy types whose names differ between NumPy versions, or are not dtype names.
_NUMPY_TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "bytes": np.bytes_,
    "datetime64": np.datetime64,
    "object": np.object_,
    "str": np.str_,
    "timedelta64": np.timedelta64,
}
_PLAIN_CODECS: dict[str, type[codecs.DataframeColumnCodec]] = {
    "CompressedNdarrayCodec": codecs.CompressedNdarrayCodec,
    "NdarrayCodec": codecs.NdarrayCodec,
}


def stored_unischema(source: Any) -> Unischema | None:
    """Return the Unischema that a dataset was written with; None if it has none.

    Parameters
    ----------
    source : ParquetDataset or Dataset
        Parquet files with Petastorm's metadata, or an MDS dataset that mdstorm created from such
        files. Other sources have no Unischema.

    Raises
    ------
    UnsafePickleError
        If the pickled metadata is not a schema.
    CorruptDatasetError
        If the index entry is not a schema, or ``_common_metadata`` was truncated.
    """
    if isinstance(source, ParquetDataset):
        data = petastorm_metadata.common_metadata_of(source).get(petastorm_metadata.UNISCHEMA_KEY)
        return None if data is None else load_unischema(data)
    if not isinstance(source, Dataset):
        return None
    value = source.index.extra.get(petastorm_metadata.UNISCHEMA_EXTRA)
    return None if value is None else unischema_from_json(value, url=source.url)


def decoded(source: Any, unischema: Unischema) -> Any:
    """Return a dataset whose columns are the decoded fields of its schema.

    Parameters
    ----------
    source : ParquetDataset or Dataset
        A dataset that Petastorm wrote, or its conversion to MDS.
    unischema : Unischema
        Its schema, or a view of the schema.

    Returns
    -------
    DecodedSource or Dataset
        A source with one column per field, in schema order. Arrays are decoded, and scalars have
        their NumPy types. Images stay encoded until readers need their pixels: see
        `Column.is_late`. If there is nothing to decode or cast, this is `source` itself.

    Raises
    ------
    MissingColumnError
        If a field is not stored.
    """
    petastorm_metadata.check_stored(
        unischema, source.url, source.schema.names, "Leave the field out with schema_fields=[…]"
    )
    source = with_declared_partitions(source, unischema)
    result = DecodedSource(source, unischema)
    nothing_to_do = tuple(result.schema) == tuple(source.schema) and not result.decodes
    return source if nothing_to_do else result


def in_float_types(source: Any, floats: Floats) -> Any:
    """Return a dataset that reads decimals and floating-point numbers as other types.

    Parameters
    ----------
    source : SampleDataset
        Any dataset, decoded or as stored. It is returned unchanged if no column changes.
    floats : Floats
        The types.
    """
    is_decoded = isinstance(source, DecodedSource)
    stored, unischema = (source.source, source.unischema) if is_decoded else (source, None)
    result = DecodedSource(stored, unischema, floats)
    return source if tuple(result.schema) == tuple(source.schema) else result


def with_declared_partitions(source: Any, unischema: Unischema) -> Any:
    """Return a Parquet dataset with partition columns as strings if the schema declares them so.

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


class DecodedSource(DatasetView):
    """A thread-safe source whose columns are the fields of a schema.

    Parameters
    ----------
    source : SampleDataset
        The dataset.
    unischema : Unischema or None
        Its schema, whose fields are all stored. If None, the columns are the fields.
    floats : Floats
        The types in which decimals and floating-point numbers are read.

    Attributes
    ----------
    unischema : Unischema or None
        The schema.
    floats : Floats
        The types in which decimals and floating-point numbers are read.
    """

    def __init__(
        self, source: SampleDataset, unischema: Unischema | None, floats: Floats = AS_STORED
    ) -> None:
        super().__init__(source, source.shard_sizes)
        self.shard_bytes = source.shard_bytes  # of the values as stored, not decoded
        self.unischema = unischema
        self.floats = floats
        fields = {column.name: DecodedField(column, None) for column in source.schema}
        if unischema is not None:
            declared = unischema.fields.items()
            fields = {name: decoded_field(field, source.schema[name]) for name, field in declared}
        self._fields = {name: with_floats(field, floats) for name, field in fields.items()}
        self.schema = Schema(tuple(field.column for field in self._fields.values()))
        self._open: OpenShards[DecodedShard] = OpenShards()
        stated = None if unischema is None else unischema_to_json(unischema)
        text = json.dumps(stated, sort_keys=True) + str(floats)
        self.fingerprint, self.former = fingerprints_of(source, lambda found: found + text)

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodedSource, (self.source, self.unischema, self.floats)

    def _mdstorm_description(self, *, full: bool) -> Description:
        found = self.source._mdstorm_description(full=full)
        if not full:
            return found
        return replace(found, headings=self.schema.headings, rows=self.schema.shown_columns)

    @property
    def decodes(self) -> bool:
        """Whether any field has to be decoded or cast."""
        return not all(field.is_as_stored for field in self._fields.values())

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""
        return self.source.is_mapped and not self.decodes

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each shard's first row in the whole dataset."""
        return self.source.first_rows

    @property
    def columns_left_out(self) -> Mapping[str, pa.DataType]:
        """Columns that are not in the schema, since their types cannot be read."""
        return self.source.columns_left_out

    def may_match(self, filters: Filters, unbounded: Collection[str] = ()) -> Mask:
        """Return for each shard whether a row may match; bounds of rounded values are not valid."""
        stored = self.source.schema
        rounded = [
            name
            for name, field in self._fields.items()
            if field.column.is_floating and field.column.arrow_type != stored[name].arrow_type
        ]
        return self.source.may_match(filters, [*unbounded, *rounded])

    def over(self, source: SampleDataset) -> DecodedSource:
        """Return a source that decodes `source`, a part of the samples, in the same way."""
        return DecodedSource(source, self.unischema, self.floats)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the fields to read."""
        return SampleDataset.select(self, columns)

    def shard(self, number: int) -> Shard:
        """Open a shard."""
        return self._open.get(
            number, lambda n: DecodedShard(self.source.shard(n), self._fields, self.url)
        )

    def begin_shard(self, number: int) -> Shard:
        """Open a shard."""
        return self.shard(number)

    def find_open(self, number: int) -> Shard | None:
        """Return a shard if it is open."""
        return self._open.find(number)

    def release(self) -> None:
        """Close open shards; they are reopened when needed."""
        self._open.release()
        self.source.release()


class DecodedShard(Shard):
    """A shard of a `DecodedSource`.

    If the stored shard keeps its values in memory, they are decoded once; from a mapped file, only
    the requested rows are decoded.
    """

    def __init__(self, stored: Shard, fields: dict[str, DecodedField], url: str) -> None:
        self.num_samples = stored.num_samples
        self._stored = stored
        self._fields = fields
        self._url = getattr(stored, "url", url)  # the URL of the shard's file, if it has one
        self._keeps = stored.memory > 0
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, bool], Values] = {}

    @property
    def memory(self) -> int:
        """Approximate bytes in memory, assuming decoded values are as large as stored ones."""
        return 2 * self._stored.memory

    def will_need(self) -> None:
        """Ask the operating system to read mapped files ahead."""
        self._stored.will_need()

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Decode ahead of time the values that stay in memory."""
        self.decoded(columns, exact_nulls=exact_nulls)

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples of some columns, read-only; None if they are not in memory."""
        if not self._keeps:
            return None
        plain = [name for name in columns if self._fields[name].is_as_stored]
        batch = self._stored.decoded(plain, exact_nulls=exact_nulls)
        if batch is None:
            return None
        everything = np.arange(self.num_samples)
        with self._lock:
            for name in columns:
                if name not in batch and (name, exact_nulls) not in self._kept:
                    self._kept[name, exact_nulls] = self._decode(everything, name, exact_nulls)
            kept = {name: self._kept[name, exact_nulls] for name in columns if name not in batch}
        return {name: batch[name] if name in batch else kept[name] for name in columns}

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the samples `rows` (ascending, without repetition) of some columns."""
        plain = [name for name in columns if self._fields[name].is_as_stored]
        others = [name for name in columns if not self._fields[name].is_as_stored]
        values = self._stored.read(rows, plain, exact_nulls=exact_nulls) if plain else {}
        kept = self.decoded(others, exact_nulls=exact_nulls) if others else {}
        for name in others:
            values[name] = (
                self._decode(rows, name, exact_nulls)
                if kept is None
                else _copied(take_values(kept[name], rows))
            )
        return {name: values[name] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample, by default with all columns; arrays as NumPy, None for null."""
        names = list(self._fields) if columns is None else list(columns)
        plain = [name for name in names if self._fields[name].is_as_stored]
        found = self._stored.sample(row, plain) if plain else {}
        for name in names:
            if name not in found:
                (found[name],) = value_cells(self._decode(np.array([row]), name, True))
        return {name: found[name] for name in names}

    def _decode(self, rows: Rows, name: str, exact_nulls: bool) -> Values:
        field = self._fields[name]
        exact = exact_nulls or field.decode is not None
        values = self._stored.read(rows, [name], exact_nulls=exact)[name]
        try:
            if field.decode is not None:
                values = _to_output(field.column, field.decode(values), exact_nulls)
            return values if field.cast is None else cast_floats(values, field.cast)
        except (ArithmeticError, TypeError, ValueError, LookupError, pa.ArrowException) as error:
            if isinstance(error, MDStormError) and not isinstance(error, ValueError):
                raise
            raise DecodeFieldError(
                f'Decoding field "{name}" failed: {self._url} holds {error}. If the file does not '
                "have the schema in the dataset's metadata, remove the file; otherwise write the "
                "dataset again, or leave the field out with schema_fields=[…]"
            ) from error


def _to_output(column: Column, values: Values, exact_nulls: bool) -> Values:
    """Return decoded values in the form that the engine uses for the column."""
    if isinstance(values, np.ndarray):
        # Arrow timestamps would not preserve the time unit.
        is_kept = values.ndim > 1 or values.dtype.kind in "OMm"
        if is_kept or column.is_numpy(exact_nulls=exact_nulls):
            return values
        return as_arrow(values)
    if column.is_array or values.null_count > column.null_count:
        return values
    is_numpy = column.is_numpy(exact_nulls=exact_nulls)
    return scalars_to_numpy(values, has_nulls=False) if is_numpy else values


def _copied(values: Values) -> Values:
    """Copy the arrays inside an object array, because users may modify them."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        for row, value in enumerate(values):
            if isinstance(value, np.ndarray):
                values[row] = value.copy()
    return values


def value_cells(values: Values) -> list[Any]:
    """Return a list of the values, with arrays as NumPy arrays."""
    if isinstance(values, np.ndarray):
        return list(values)
    cells: list[Any] = values.to_pylist()
    if pa.types.is_list(values.type):
        dtype = numpy_dtype(values.type.value_type)
        cells = [None if cell is None else np.array(cell, dtype) for cell in cells]
    return cells


def unischema_to_json(unischema: Unischema) -> dict[str, Any]:
    """Return the schema as a JSON object; user-defined codecs are left out."""
    return {
        "name": unischema._name,
        "fields": [
            {
                "name": field.name,
                "numpy_dtype": _type_name(field.numpy_dtype),
                "shape": list(field.shape),
                "codec": _codec_to_json(field.codec),
                "nullable": bool(field.nullable),
            }
            for field in unischema.fields.values()
        ],
    }


def unischema_from_json(value: Any, *, url: str = "") -> Unischema:
    """Return the schema that `unischema_to_json` serialized.

    Raises
    ------
    CorruptDatasetError
        If the value is not a serialized schema. The error gives `url` as its origin.
    """
    try:
        return Unischema(str(value["name"]), [_field(field) for field in value["fields"]])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptDatasetError(
            f"{url} holds a Unischema that cannot be read ({type(error).__name__}: {error}). "
            "Write the dataset again, or, if it is a copy, restore its index from the original",
            url=url,
        ) from error


def _field(value: dict[str, Any]) -> UnischemaField:
    shape = tuple(value["shape"])
    if not all(size is None or (type(size) is int and size >= 0) for size in shape):
        raise ValueError(f"invalid shape {shape}")
    name, codec = value["name"], value.get("codec")
    if type(name) is not str:
        raise TypeError(f"invalid field name {name!r}")
    return UnischemaField(
        name, _type_of(value["numpy_dtype"]), shape, _codec(codec), value["nullable"] is True
    )


def _type_name(numpy_dtype: Any) -> str:
    for name, type_ in _PYTHON_TYPES.items():
        if numpy_dtype is type_:
            return name
    dtype = np.dtype(numpy_dtype)
    for name, type_ in _NUMPY_TYPES.items():
        if dtype.type is type_:
            return name
    return str(dtype.name)


def _type_of(name: str) -> Any:
    found = _PYTHON_TYPES.get(name) or _NUMPY_TYPES.get(name)
    if found is None:
        dtype = np.dtype(name)
        if dtype.kind not in "iufc":
            raise ValueError(f"unsupported type {name!r}")
        found = dtype.type
    return found


def _codec_to_json(codec: Any) -> dict[str, Any] | None:
    if type(codec) is codecs.ScalarCodec:
        return {"type": "ScalarCodec", "spark_type": spark_type_json(codec._spark_type)}
    if type(codec) is codecs.CompressedImageCodec:
        return {
            "type": "CompressedImageCodec",
            "image_codec": codec.image_codec,
            "quality": codec.quality,
        }
    return {"type": type(codec).__name__} if type(codec) in _PLAIN_CODECS.values() else None


def _codec(value: dict[str, Any] | None) -> codecs.DataframeColumnCodec | None:
    if value is None:
        return None
    kind = value["type"]
    if kind == "ScalarCodec":
        return codecs.ScalarCodec(NamedSparkType(value["spark_type"]))
    if kind == "CompressedImageCodec":
        return codecs.stored_image_codec(value["image_codec"], value["quality"])
    return _PLAIN_CODECS[kind]()
