"""What datasets tell of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mdstorm_backend.display import Description, counted, human_bytes, shown_place

if TYPE_CHECKING:
    from mdstorm_backend.format.schema import Schema
    from mdstorm_backend.read.source import SampleSource


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
        What is described.
    schema : Schema, optional
        Its columns, if they are to be shown.
    shards : str
        What one of its shards is called.
    further : iterable of (str, str)
        Further facts.
    """
    rows, number = sum(dataset.shard_sizes), len(dataset.shard_sizes)
    size, place = human_bytes(dataset.nbytes), shown_place(dataset.url)
    line = [repr(place), counted(rows, "row"), counted(number, shards), size]
    facts = [("location", place), ("rows", f"{rows:,}"), (f"{shards}s", f"{number:,}")]
    facts += [("bytes", size), *further]
    if schema is None:
        return Description(line, facts)
    return Description(line, facts, schema.headings, schema.shown_columns)
