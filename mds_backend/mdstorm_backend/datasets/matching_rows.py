"""Which rows of a dataset match ``where=``.

The result is kept with the cached shards of the dataset, under a lock, so that of all processes on
a machine one reads the columns, once.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.cache import keep_file
from mdstorm_backend.datasets.filters import Expression, Filters
from mdstorm_backend.datasets.kept_values import batches_read
from mdstorm_backend.datasets.row_choice import as_array, as_range, numbers_hash
from mdstorm_backend.read import SampleSource
from mdstorm_backend.read.made_columns import SampleNumbers

if TYPE_CHECKING:
    from mdstorm_backend.datasets.sample_dataset import SampleDataset

_logger = logging.getLogger(__name__)


def conditions_on(dataset: SampleSource, where: Any) -> Filters | Expression:
    """Return conditions that were passed as `where`, checked against the dataset's columns."""
    kind = Expression if isinstance(where, pc.Expression) else Filters
    return kind.of("where", where, dataset.schema, dataset.url)


def matching_numbers(dataset: SampleDataset, numbers: SampleNumbers, where: Any) -> SampleNumbers:
    """Return the rows among `numbers` that match `where`, as a range if they are evenly spaced."""
    conditions = conditions_on(dataset, where)
    if isinstance(conditions, Filters):
        found = as_array(numbers)
        may_match = np.repeat(dataset.may_match(conditions), dataset.shard_sizes)
        numbers = as_range(found[may_match[found]])
    if not len(numbers):
        return numbers
    among = f"{numbers_hash(numbers)} {len(numbers)}"
    key = hashlib.sha256(conditions.identity + among.encode()).hexdigest()[:24]
    identity = f"{dataset.content_identity()} {among}"
    evaluate = partial(_evaluate, dataset, numbers, conditions)
    content = keep_file(dataset.url, dataset.fingerprint, f"where-{key}.bits", identity, evaluate)
    matching = np.unpackbits(np.frombuffer(content, np.uint8), count=len(numbers))
    return as_range(as_array(numbers)[matching.astype(np.bool_)])


def _evaluate(
    dataset: SampleDataset,
    numbers: SampleNumbers,
    where: Filters | Expression,
    progress: Callable[[], object],
) -> bytes:
    """Read the columns that conditions use; return a bit for each row."""
    begun = time.monotonic()
    batches = batches_read(dataset, numbers, sorted(where.fields), progress)
    matching = np.concatenate([where.mask(batch, dataset.schema) for batch in batches])
    _logger.info(
        "where=%s matches %d of %d rows of %s, found in %.1f s",
        *(where, matching.sum(), len(matching), dataset.url, time.monotonic() - begun),
    )
    return np.packbits(matching).tobytes()
