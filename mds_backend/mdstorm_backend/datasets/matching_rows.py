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

import numpy as np

from mdstorm_backend.cache import keep_file
from mdstorm_backend.datasets.filters import Expression, Filters, Mask
from mdstorm_backend.datasets.sample_dataset import SampleDataset

#: Rows that are read at a time.
_AT_A_TIME = 1 << 16

_logger = logging.getLogger(__name__)


def matching_rows(dataset: SampleDataset, where: Filters | Expression) -> Mask:
    """Return whether each row of a dataset matches `where`."""
    key = hashlib.sha256(where.identity).hexdigest()[:24]
    evaluate = partial(_evaluate, dataset, where)
    url, fingerprint, name = dataset.url, dataset.fingerprint, f"where-{key}.bits"
    identity = f"{dataset.content_identity()} {len(dataset)}"
    content = keep_file(url, fingerprint, name, identity, evaluate)
    bits = np.frombuffer(content, np.uint8)
    return np.unpackbits(bits, count=len(dataset)).astype(np.bool_)


def _evaluate(
    dataset: SampleDataset, where: Filters | Expression, progress: Callable[[], object]
) -> bytes:
    """Read the columns that conditions use; return a bit for each row."""
    begun = time.monotonic()
    found = []
    for batch in dataset.batches(_AT_A_TIME, format="arrow", columns=sorted(where.fields)):
        found.append(where.mask(batch, dataset.schema))
        progress()
    matching = np.concatenate(found)
    _logger.info(
        "where=%s matches %d of %d rows of %s, found in %.1f s",
        *(where, matching.sum(), len(matching), dataset.url, time.monotonic() - begun),
    )
    return np.packbits(matching).tobytes()
