"""What is made from the values of a column, such as the rows' weights.

The result is kept with the cached shards of the dataset, under a lock, so that of all processes on
a machine one reads the column, once.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mdstorm_backend.cache import keep_file
from mdstorm_backend.read.made_columns import SampleNumbers
from mdstorm_backend.storage import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

    from mdstorm_backend.datasets.sample_dataset import SampleDataset

#: Rows that are read at a time.
_AT_A_TIME = 1 << 16

_logger = logging.getLogger(__name__)


def batches_read(
    dataset: SampleDataset,
    numbers: SampleNumbers,
    columns: Sequence[str],
    progress: Callable[[], object],
) -> Iterator[Any]:
    """Yield rows in batches, and call `progress` after each: see `keep_file`."""
    for batch in dataset.batches_of(numbers, _AT_A_TIME, columns):
        yield batch
        progress()


def kept_values(
    dataset: SampleDataset, column: str, what: str, make: Callable[[Iterator[pa.Array]], bytes]
) -> Buffer:
    """Return what is made from a column of a dataset: see `SampleDataset.keep_values`."""
    dataset.select([column])  # raises an error if there is no such column

    def evaluate(progress: Callable[[], object]) -> bytes:
        begun = time.monotonic()
        batches = batches_read(dataset, range(len(dataset)), [column], progress)
        found = make(batch.column(0) for batch in batches)
        _logger.info(
            "read %s of %s for its %s in %.1f s",
            *(column, dataset.url, what, time.monotonic() - begun),
        )
        return found

    key = hashlib.sha256(f"{what} {column} {dataset.chosen}".encode()).hexdigest()[:24]
    identity = f"{dataset.content_identity()} {dataset.chosen}"
    stored = dataset.stored
    return keep_file(stored.url, stored.fingerprint, f"values-{key}.bin", identity, evaluate)
