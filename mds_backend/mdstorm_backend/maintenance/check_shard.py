"""Verify one shard: its files, its header and its values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mdstorm_backend.errors import MDStormError, MissingDependencyError
from mdstorm_backend.format.compression import HASH_NAMES, decompress, digest
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.format.layout import read_header, shown_json
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.stored_schema import parse_columns
from mdstorm_backend.format.values.batch import as_arrow
from mdstorm_backend.read.late import object_decoder
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.storage import Buffer, Location

#: Values are decoded from about this many bytes at a time.
_CHUNK_BYTES = 16 << 20
#: Keys of a shard's index entry that its header repeats.
_REPEATED = ("column_names", "column_encodings", "column_sizes", "format", "version")


@dataclass(frozen=True, order=True)
class Problem:
    """A problem with a file, or a note that something was not checked.

    Attributes
    ----------
    file : str
        Name of the file in the directory of the dataset.
    problem : str
        Description.
    """

    file: str
    problem: str


@dataclass
class ShardCheck:
    """The findings in one shard.

    Attributes
    ----------
    problems, notes : list of Problem
        As in `VerifyReport`.
    null_counts, element_null_counts : dict of str to int
        Nulls according to the bitmaps in the header.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)


def check_shard(location: Location, info: ShardInfo, schema: Schema) -> ShardCheck:
    """Read a whole shard, and check it against the index and the format."""
    return _Checker(location, info, schema).run()


class _Checker:
    def __init__(self, location: Location, info: ShardInfo, schema: Schema) -> None:
        self._location = location
        self._info = info
        self._schema = schema
        self._file = info.stored
        self._url = location.file_url(self._file.basename)
        self._found = ShardCheck()

    def run(self) -> ShardCheck:
        try:
            data = self._location.read(self._file.basename)
        except FileNotFoundError:
            self._add("is missing")
            return self._found
        self._check_file(self._file, data, "")
        raw = self._decompress(data)
        if raw is None:
            return self._found
        if self._info.zip_data is not None:
            self._check_file(self._info.raw_data, raw, "decompressed, it ")
        try:
            schema = _own_schema(self._schema, self._info)
            shard = MDSShard(raw, self._info, schema, url=self._url)
            self._check_header(raw)
            self._found.null_counts = shard.validity.null_counts
            self._found.element_null_counts = shard.validity.element_null_counts
        except MDStormError as error:
            self._add_error(error)
            return self._found
        self._check_values(shard)
        return self._found

    def _add(self, problem: str) -> None:
        found = Problem(self._file.basename, problem)
        if found not in self._found.problems:
            self._found.problems.append(found)

    def _add_error(self, error: MDStormError) -> None:
        text = str(error).removeprefix(f"{self._url} ")
        self._add(text.replace(f" of {self._url} ", " "))

    def _note(self, text: str) -> None:
        note = Problem(self._file.basename, text)
        if note not in self._found.notes:
            self._found.notes.append(note)

    def _check_file(self, file: FileInfo, data: Buffer, what: str) -> None:
        """Compare the size and every recorded hash of a file with its content."""
        if len(data) != file.bytes:
            self._add(f"{what}holds {len(data)} bytes, and the index says {file.bytes}")
            return
        for name, stated in file.hashes.items():
            if name not in HASH_NAMES:
                self._note(f"its hash {name!r} is unknown and was not checked")
                continue
            try:
                found = digest(name, [data])
            except MissingDependencyError as error:
                self._note(f"its hash {name!r} was not checked: {error}")
                continue
            if found != stated.lower():
                self._add(f"{what}has the {name} {found}, and the index says {stated}")
        unstated = sorted(set(self._info.hashes) - set(file.hashes))
        if unstated:
            self._add(f"{what}has no {', '.join(unstated)} in the index, which promises it")

    def _decompress(self, data: Buffer) -> Buffer | None:
        if self._info.compression is None:
            return data
        try:
            return decompress(self._info.compression, data, self._info.raw_data.bytes)
        except (OSError, ValueError) as error:
            self._add(f"cannot be decompressed as {self._info.compression} ({error})")
            return None

    def _check_header(self, raw: Buffer) -> None:
        """Compare the header with the index."""
        stated = self._info.to_json()
        _, header = read_header(raw, url=self._url)
        for key in _REPEATED:
            if key in header and (header[key] or None) != (stated[key] or None):
                self._add(
                    f"has {key} {shown_json(header[key])} in its header, and "
                    f"{shown_json(stated[key])} in the index"
                )
        columns = header.get("mdstorm", {}).get("columns")
        if columns:
            try:
                described = parse_columns(columns)
            except (KeyError, TypeError, ValueError) as error:
                self._add(f"has an unreadable schema in its header ({error})")
                return
            if any(column.spark_type is not None for column in self._schema):
                ours, theirs = map(_identity, (self._schema, described))
                if ours != theirs:
                    self._add("has another schema in its header than the index")

    def _check_values(self, shard: MDSShard) -> None:
        columns = [column for column in shard.schema if self._is_decodable(column)]
        try:
            self._decode(shard, columns)
        except MDStormError:
            # One at a time, so that a damaged column does not hide the others.
            for column in columns:
                try:
                    self._decode(shard, [column])
                except MissingDependencyError as error:
                    self._note(f"column {column.name!r} was not decoded: {error}")
                except MDStormError as error:
                    self._add_error(error)

    def _is_decodable(self, column: Column) -> bool:
        if column.name not in self._info.column_names:
            self._add(f"has no column {column.name!r}, which other shards have")
            return False
        encoding = column.parsed_encoding
        if encoding.is_opaque:
            self._add(
                f"holds column {column.name!r} in {encoding.described}, which cannot be decoded"
            )
        elif encoding.is_unsafe:
            self._note(
                f"column {column.name!r} was not decoded: {column.encoding!r} is only safe to "
                "load if you trust it"
            )
        return not (encoding.is_opaque or encoding.is_unsafe)

    def _decode(self, shard: MDSShard, columns: list[Column]) -> None:
        """Decode every value of some columns, one chunk of rows at a time."""
        names = [column.name for column in columns]
        size = max(1, self._info.samples * _CHUNK_BYTES // max(self._info.raw_data.bytes, 1))
        for start in range(0, self._info.samples, size):
            rows = np.arange(start, min(start + size, self._info.samples))
            batch = shard.read(rows, names, exact_nulls=True)
            for column in columns:
                if column.is_late:
                    decode = object_decoder(column.parsed_encoding, column, self._url, "array")
                    for value in as_arrow(batch[column.name]).to_pylist():
                        if value is not None:
                            decode(value)


def _own_schema(schema: Schema, info: ShardInfo) -> Schema:
    """Return the schema with this shard's encodings; columns with a Spark type are unchanged."""
    own = Schema.from_shards([info])

    def as_stored(column: Column) -> Column:
        if column.spark_type is not None or column.name not in own:
            return column
        stored = own[column.name]
        return replace(column, encoding=stored.encoding, length=stored.length)

    return Schema(tuple(map(as_stored, schema)))


def _identity(schema: Schema) -> list[tuple[object, ...]]:
    return [(c.name, c.encoding, c.spark_type, c.nullable) for c in schema]
