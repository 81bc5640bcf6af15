"""Short functions for reading without randomness."""

from typing import Any

from petastorm import make_batch_reader, make_reader

#: No shuffling, and no thread pool: Petastorm's pool may end before it has read all rows.
CALM = {"reader_pool_type": "dummy", "shuffle_row_groups": False}


def batches(url: Any, **arguments: Any) -> list[Any]:
    with make_batch_reader(url, **{**CALM, **arguments}) as reader:
        return list(reader)


def rows(url: str, **arguments: Any) -> list[Any]:
    with make_reader(url, **{**CALM, **arguments}) as reader:
        return list(reader)


def ids_of(batches: list[Any]) -> list[list[int]]:
    """Return the ids in each batch."""
    return [batch.id.tolist() for batch in batches]
