"""`describe_dataset`: the description of an open dataset, of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from mdstorm_backend.display import Description, counted, human_bytes, shown_url
from mdstorm_backend.format import Schema
from mdstorm_backend.read import SampleSource


def describe_dataset(
    dataset: SampleSource,
    schema: Schema | None = None,
    *,
    shards: str = "shard",
    further: Iterable[tuple[str, str]] = (),
) -> Description:
    """Describe an open dataset.

    Parameters
    ----------
    dataset : Dataset, ParquetDataset or JoinedDataset
        The dataset.
    schema : Schema, optional
        The columns, if they should be shown.
    shards : str
        The noun for one of its shards.
    further : iterable of (str, str)
        Additional facts, as name-value pairs.
    """
    rows, number = sum(dataset.shard_sizes), len(dataset.shard_sizes)
    size, place = human_bytes(dataset.nbytes), shown_url(dataset.url)
    line = [repr(place), counted(rows, "row"), counted(number, shards), size]
    facts = [("location", place), ("rows", f"{rows:,}"), (f"{shards}s", f"{number:,}")]
    facts += [("bytes", size), *further]
    if schema is None:
        return Description(line, facts)
    return Description(line, facts, schema.headings, schema.shown_columns)


def typed_columns(types: Mapping[str, pa.DataType]) -> str:
    """Return names of columns with their types, as messages list them."""
    return ", ".join(f"{name!r} of type {type_}" for name, type_ in types.items())
