"""Resolve Petastorm's batch size, where None means all rows."""

from __future__ import annotations

import sys

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import check_integer


def rows_of_batch(
    batch_size: int | None,
    *,
    num_epochs: int | None,
    dataset_size: int,
    is_elastic: bool = False,
    may_add_rows: bool = False,
) -> int:
    """Return the rows of a batch.

    Parameters
    ----------
    batch_size : int or None
        What was asked for; None, 0 or less: all rows of all epochs.
    num_epochs : int or None
        Passes over the data; None never ends.
    dataset_size : int
        Rows of an epoch.
    is_elastic : bool
        Whether the order is the elastic one, in which no batch spans epochs.
    may_add_rows : bool
        Whether a transform may make more rows of them.

    Raises
    ------
    InvalidArgumentError
        If it is not an integer, or would be all rows of a reading that never ends.
    """
    check_integer("batch_size", batch_size)
    if batch_size and batch_size > 0:
        return int(batch_size)
    if num_epochs is None:
        raise InvalidArgumentError(
            f"batch_size={batch_size!r} puts all rows into one batch, and num_epochs=None never "
            "ends: pass a batch_size, or a number of epochs"
        )
    if is_elastic:
        return max(dataset_size, 1)
    return sys.maxsize if may_add_rows else max(dataset_size * num_epochs, 1)
