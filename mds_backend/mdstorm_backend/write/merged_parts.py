"""The index over several datasets: its shards and its logical schema."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.array_forms import joined_form, without_form
from mdstorm_backend.format.index import INDEX_NAME, FileInfo, Index, ShardInfo
from mdstorm_backend.format.schema import FORMAT_VERSION, Column, Schema
from mdstorm_backend.format.stored_schema import schema_of


@dataclass(frozen=True)
class Part:
    """A dataset that is merged.

    Attributes
    ----------
    directory : str
        Where it is, relative to the merged dataset.
    index : Index
        Its index.
    """

    directory: str
    index: Index

    @property
    def shards(self) -> list[ShardInfo]:
        """Its shards, their files named relative to the merged dataset."""
        return [
            replace(
                shard,
                raw_data=self._moved(shard.raw_data),
                zip_data=shard.zip_data and self._moved(shard.zip_data),
            )
            for shard in self.index.shards
        ]

    def _moved(self, file: FileInfo) -> FileInfo:
        return replace(file, basename=posixpath.join(self.directory, file.basename))


def merge_parts(parts: Sequence[Part], url: str) -> Index:
    """Return the index over `parts`, in their order; `url` is where it will be.

    Raises
    ------
    CorruptDatasetError
        If two parts say different things about one shard.
    """
    shards: dict[str, ShardInfo] = {}
    first: dict[str, str] = {}
    counted = []
    for part in parts:
        new = 0
        for shard in part.shards:
            name = shard.raw_data.basename
            if shards.setdefault(name, shard) != shard:
                raise CorruptDatasetError(
                    f"the indexes in {first[name]!r} and in {part.directory!r} below {url} "
                    f"contradict each other about the shard {name}. Remove the one that is out of "
                    "date, and merge again",
                    url=url,
                )
            new += first.setdefault(name, part.directory) == part.directory
        if new or not part.index.shards:
            counted.append((part, new == len(part.index.shards)))
    return Index(tuple(shards.values()), _merged_extra(counted, shards.values(), url))


def _merged_extra(
    parts: Sequence[tuple[Part, bool]], shards: Iterable[ShardInfo], url: str
) -> dict[str, Any]:
    """Return what all parts say beyond the format, if they agree.

    A part some of whose shards another one lists has null counts that cannot be divided.
    """
    schemas = [
        schema_of(part.index, url=f"{url}/{part.directory}/{INDEX_NAME}")
        for part, _ in parts
        if part.index.extra.get("columns")
    ]
    if not schemas:
        return {}
    plain = {tuple(map(_without_counts, schema)) for schema in map(tuple, schemas)}
    if len(schemas) < len(parts) or len(plain) > 1 or not all(whole for _, whole in parts):
        warn_user(
            f"the parts of {url} do not have the same types, so the merged index records no "
            "types: columns are read as plain MDS, dates as numbers and nulls as the values that "
            "replace them. Write the parts with equal columns, or run 'mdstorm reindex' on each "
            "of them if their indexes have lost them"
        )
        return {}
    full = [s for s, (part, _) in zip(schemas, parts, strict=True) if part.index.shards]
    columns = [_summed(column, full) for column in schemas[0]]
    return {
        "version": FORMAT_VERSION,
        "num_rows": sum(shard.samples for shard in shards),
        "columns": Schema(tuple(columns)).to_json(),
    }


def _without_counts(column: Column) -> str:
    plain = replace(without_form(column), null_count=0, element_null_count=0)
    return json.dumps(Schema((plain,)).to_json(), sort_keys=True)


def _summed(column: Column, schemas: Sequence[Schema]) -> Column:
    same = [schema[column.name] for schema in schemas]
    return replace(
        joined_form(same or [column]),
        null_count=sum(other.null_count for other in same),
        element_null_count=sum(other.element_null_count for other in same),
    )
