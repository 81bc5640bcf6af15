"""The logical schema of a dataset: the column properties that the MDS format cannot express.

It is stored as JSON under the key ``"mdstorm"`` of the index and of every shard's header: the
columns in the order of the DataFrame, their Spark types, and how many nulls they contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.display import Described, Description
from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.format.encodings import numbers, registry
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type, simple_name
from mdstorm_backend.format.values.nested_lists import element_type

#: Version of the object under the key ``"mdstorm"``.
FORMAT_VERSION = 1
#: Number of columns shown in the one-line form of a schema.
_IN_LINE = 8
#: Keys that are written only if they have a value: only columns of nested arrays have one.
_OPTIONAL = {"shape", "uneven"}


@dataclass(frozen=True)
class Origin:
    """Facts about an open dataset that are not stored in it.

    Attributes
    ----------
    url : str
        Where the dataset was opened, for error messages.
    allow_unsafe_types : bool
        Whether the caller explicitly allows unpickling values.
    lengths : {"stated", "unknown", "differ"}
        Whether the schema states how long the arrays in a column are, as in MDS. If not, as in
        Parquet, the rows of a batch may all have the same length, and are then returned as one
        array; ``"differ"`` means that some lengths are known to differ, but not in which rows.
    counts_nulls : bool
        Whether the column's null counts are known. If not, they are 0, and each batch is
        returned according to the nulls in it.
    is_partition : bool
        Whether values are in directory names or in a table's log.
    path_column : str
        If values are the contents of files, the column that has their paths; otherwise empty.
    differing : str
        How Parquet files differ in the column, so that it cannot be read; empty if they agree.
    """

    url: str = ""
    allow_unsafe_types: bool = False
    lengths: Literal["stated", "unknown", "differ"] = "stated"
    counts_nulls: bool = True
    is_partition: bool = False
    path_column: str = ""
    differing: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a dataset.

    Attributes
    ----------
    name : str
        Name in the DataFrame.
    encoding : str
        MDS encoding. For arrays this is ``ndarray:<dtype>``, whichever form the individual shards
        use.
    spark_type : str, dict or None
        Spark type as Spark's own JSON; None in a dataset that was not written from a DataFrame.
    nullable : bool
        Whether the DataFrame declared the column nullable.
    null_count : int
        Rows that are null.
    element_null_count : int
        Null elements inside arrays that are not null themselves.
    length : int or None
        Length in elements of every array in the column; None if it varies.
    shape : tuple of int or None
        Shape of every multi-dimensional array, if the encoding does not state it; None if it
        varies.
    uneven : bool
        Whether some nested arrays are not rectangular: inner lists have different lengths or are
        null. Such arrays are stored as JSON, and returned as lists of arrays.
    origin : Origin
        How the dataset was opened; not compared, and never stored.
    """

    name: str
    encoding: str
    spark_type: SparkType | None = None
    nullable: bool = True
    null_count: int = 0
    element_null_count: int = 0
    length: int | None = None
    shape: tuple[int, ...] | None = None
    uneven: bool = False
    origin: Origin = field(default=Origin(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Include the user-defined classes that other processes need to decode the column."""
        return {**vars(self), "user_classes": registry.user_classes_of(self.encoding)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        registry.receive(state.pop("user_classes"))
        vars(self).update(state)

    @property
    def parsed_encoding(self) -> Encoding:
        """The column's `Encoding` object."""
        return registry.parse_encoding(self.encoding)

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values, after any cast on writing.

        Arrays that state their own dtype have an unknown element type, ``list<null>``; images and
        pickles are the stored bytes.
        """
        encoding = self.parsed_encoding
        encoding.check_decodable(self.name)
        if self.spark_type is None:
            return encoding.arrow_type
        return encoding.output_type(arrow_type(self.spark_type))

    @property
    def is_array(self) -> bool:
        """Whether a value is a numeric array."""
        return self.parsed_encoding.is_array

    @property
    def element_type(self) -> pa.DataType:
        """Arrow type of a scalar, or of the innermost elements of lists."""
        return element_type(self.arrow_type)

    @property
    def value_shape(self) -> tuple[int, ...] | None:
        """Shape of every value, ``()`` for scalars; None if it varies or is unknown."""
        if self.length is not None:
            return (self.length,)
        return self.parsed_encoding.shape if self.shape is None else self.shape

    @property
    def is_late(self) -> bool:
        """Whether the reading core returns stored values, for `read.late` to decode.

        True for images and pickles, and for JSON and decimals without a Spark type.
        """
        return self.parsed_encoding.is_late(typed=self.spark_type is not None)

    @property
    def is_image(self) -> bool:
        """Whether a value is one image."""
        return self.parsed_encoding.is_image

    @property
    def is_nested(self) -> bool:
        """Whether values are stored as JSON and are more than lists of strings or binaries."""
        encoding = self.parsed_encoding
        return not encoding.is_opaque and encoding.is_nested(self.arrow_type)

    @property
    def has_nulls(self) -> bool:
        """Whether any row or any array element is null."""
        return bool(self.null_count or self.element_null_count)

    @property
    def shown_type(self) -> str:
        """The Spark type, or the encoding if there is none, for display."""
        if self.origin.differing:
            return "differs"
        return self.encoding if self.spark_type is None else simple_name(self.spark_type)

    @property
    def shown_nulls(self) -> str:
        """The number of nulls, for display."""
        if not self.origin.counts_nulls:
            return "not counted"
        found = [f"{self.null_count:,}"] if self.null_count else []
        if self.element_null_count:
            found.append(f"{self.element_null_count:,} in arrays")
        return ", ".join(found) or "none"

    @property
    def may_have_nulls(self) -> bool:
        """Whether the column has nulls, or their number is unknown."""
        return self.has_nulls or not self.origin.counts_nulls

    @property
    def may_have_one_length(self) -> bool:
        """Whether all arrays in a batch may have the same length, though the schema states none."""
        return self.origin.lengths != "stated" and self.value_shape is None

    @property
    def is_floating(self) -> bool:
        """Whether values, or the elements of arrays, are floating-point numbers."""
        type_ = self.element_type if self.is_array else self.arrow_type
        return bool(pa.types.is_floating(type_))

    def is_numpy(self, *, exact_nulls: bool = False) -> bool:
        """Whether the reading core returns the column as NumPy arrays rather than Arrow arrays.

        The answer applies to the whole dataset, not to a single batch. With `exact_nulls`, nulls in
        floating-point columns must not become NaN.
        """
        encoding = self.parsed_encoding
        fixed_size = encoding.dtype is not None and self.value_shape is not None
        if not fixed_size or not self.may_have_nulls:
            return fixed_size
        null_arrays = self.is_array and (self.null_count > 0 or not self.origin.counts_nulls)
        return self.is_floating and not exact_nulls and not null_arrays


@dataclass(frozen=True, repr=False)
class Schema(Described):
    """The columns of a dataset, in DataFrame order."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Column | None:
        """Return a column by name, or None."""
        return self._by_name.get(name)

    #: Headings of the table `shown_columns`.
    headings = ("column", "type", "nulls")

    @property
    def shown_columns(self) -> list[tuple[str, str, str]]:
        """Name, type and nulls of each column, for display."""
        return [(column.name, column.shown_type, column.shown_nulls) for column in self.columns]

    def _mdstorm_description(self, *, full: bool) -> Description:
        line = [f"{name} {type_}" for name, type_, _ in self.shown_columns[:_IN_LINE]]
        if len(self) > _IN_LINE:
            line.append(f"… {len(self)} columns")
        return Description(line, [("columns", f"{len(self):,}")], self.headings, self.shown_columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the values.

        Every field is nullable: Spark's declaration is a promise about the source that was never
        checked.
        """
        return pa.schema([(c.name, c.arrow_type) for c in self.columns])

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema of the columns `names`, in that order."""
        return Schema(tuple(self._by_name[name] for name in names))

    @property
    def readable(self) -> Schema:
        """The columns that can be read; see `check_readable`."""
        found = (c for c in self if not (c.parsed_encoding.is_opaque or c.origin.differing))
        return Schema(tuple(found))

    def check_readable(self, names: Iterable[str], url: str) -> None:
        """Check that those of the columns `names` that the schema has can be read.

        Raises
        ------
        UnsupportedEncodingError
            If this version cannot decode one of the columns.
        UnsupportedTableError
            If the files of the dataset at `url` differ in one of the columns.
        """
        columns = [self._by_name[name] for name in names if name in self]
        for column in columns:
            column.parsed_encoding.check_decodable(column.name)
        differing = {c.name: c.origin.differing for c in columns if c.origin.differing}
        if differing:
            raise UnsupportedTableError(
                f"the files of {url} differ in the columns {[*differing]}: "
                f"{next(iter(differing.values()))}. Leave them out with schema_fields=[…] or "
                "columns=[…], pass the files that match as a list, or rewrite the others",
                url=url,
            )

    def with_columns(self, columns: Iterable[Column]) -> Schema:
        """Return the schema with `columns` in place of the columns with the same names."""
        found = {column.name: column for column in columns}
        return Schema(tuple(found.get(column.name, column) for column in self.columns))

    def opened(self, url: str, *, allow_unsafe_types: bool = False) -> Schema:
        """Return the schema with an `Origin` for a dataset that was opened at `url`."""
        origin = Origin(url, allow_unsafe_types)
        return Schema(tuple(replace(column, origin=origin) for column in self.columns))

    def to_json(self) -> list[dict[str, Any]]:
        """Return one JSON object per column."""
        return [
            {
                key: list(value) if key == "shape" else value
                for key, value in asdict(column).items()
                if key != "origin" and (value or key not in _OPTIONAL)
            }
            for column in self.columns
        ]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> Schema:
        """Build the schema from the result of `to_json`; keys from later versions are ignored."""
        known = {f.name for f in fields(Column)} - {"origin"}
        columns = [{k: v for k, v in column.items() if k in known} for column in value]
        for column in columns:
            column["shape"] = column.get("shape") and tuple(column["shape"])
        return cls(tuple(Column(**column) for column in columns))

    @classmethod
    def from_shards(cls, shards: Iterable[ShardInfo]) -> Schema:
        """Derive the schema of a dataset that stores none: its columns in stored order."""
        encodings: dict[str, set[str]] = {}
        # There may be many shards, most with the same columns.
        kinds = dict.fromkeys((s.column_names, s.column_encodings, s.column_sizes) for s in shards)
        for names, found, sizes in kinds:
            for name, encoding, size in zip(names, found, sizes, strict=True):
                encodings.setdefault(name, set()).add(registry.sized_encoding(encoding, size).text)
        return cls(tuple(_merge_encodings(name, found) for name, found in encodings.items()))


def _merge_encodings(name: str, found: set[str]) -> Column:
    if len(found) > 1:
        return Column(name, registry.general_encoding(sorted(found)))
    text = found.pop()
    encoding = registry.parse_encoding(text)
    dtype, shape = encoding.dtype, encoding.shape
    if encoding.kind == "ndarray" and dtype is not None and shape is not None and len(shape) == 1:
        return Column(name, numbers.array_encoding(dtype, None), length=shape[0])
    return Column(name, text)
