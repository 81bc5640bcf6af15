"""What datasets tell of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from mdstorm_backend.display import Description, counted, human_bytes, shown_place
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    from mdstorm_backend.datasets.dataset import Dataset
    from mdstorm_backend.format.schema import Schema


class _Open(Protocol):
    """What is known of an open dataset without looking at its files."""

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Samples of each shard."""

    @property
    def nbytes(self) -> int:
        """Bytes of all shards, uncompressed."""


def describe_dataset(
    dataset: _Open,
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
    facts = [("place", place), ("rows", f"{rows:,}"), (f"{shards}s", f"{number:,}")]
    facts += [("bytes", size), *further]
    if schema is None:
        return Description(line, facts)
    return Description(line, facts, schema.headings, schema.shown_columns)


def describe_place(
    place: str, storage_options: dict[str, Any] | None = None, *, full: bool
) -> Description:
    """Describe a dataset that nobody has opened.

    For a `full` description its index is read, if that is on a local disk.
    """
    found = _at_hand(place, storage_options) if full else None
    if found is not None:
        return found._mdstorm_description(full=True)
    shown = shown_place(place)
    state = "not opened"
    if full:
        location = Location.of(place, storage_options)
        if location.is_local_disk and not os.path.exists(location.path):
            state = "nothing is there"
    return Description([repr(shown)], [("place", shown), ("state", state)])


def _at_hand(place: str, storage_options: dict[str, Any] | None) -> Dataset | None:
    """Open the MDS dataset at a place, if that takes no more than a look at a local disk."""
    from mdstorm_backend.datasets.dataset import open_dataset

    try:
        location = Location.of(place, storage_options)
        if location.is_local_disk and location.exists(INDEX_NAME):
            return open_dataset(place, storage_options=storage_options)
    except (MDStormError, OSError):
        return None
    return None
