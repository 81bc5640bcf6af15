"""`WeightedSamplingReader`, which draws rows or batches at random from several readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm._readers import check_reader, is_reader
from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.base import OwnContext

__all__ = ["WeightedSamplingReader"]


class WeightedSamplingReader(OwnContext):
    """Yields rows or batches from several readers, choosing each with a given probability.

    Iteration ends as soon as one of the readers ends, and can continue once that reader is reset.
    The signature is the same as in ``petastorm.weighted_sampling_reader``, plus `seed`.

    Parameters
    ----------
    readers : sequence of Reader
        Two or more readers with the same fields, which all yield rows or all yield batches.
        Any iterator with the attributes `batched_output`, `ngram` and `schema` is accepted.
    probabilities : sequence of float
        One number per reader. They do not have to sum to 1.
    seed : int, optional
        Seed for choosing readers. By default, NumPy's global generator is used, as in Petastorm.

    Attributes
    ----------
    batched_output, is_batched_reader : bool
        Whether the readers yield batches.
    ngram : NGram or None
        The readers' n-gram.
    schema : Unischema
        The readers' schema.

    Raises
    ------
    InvalidArgumentError
        If the readers are incompatible, or the probabilities are invalid.
    UnsupportedArgumentError
        If a reader has `row_numbers`.

    Examples
    --------
    Nine out of ten batches are from the first reader:

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from mdstorm import make_batch_reader
    >>> pq.write_table(pa.table({"id": [1, 2]}), "/tmp/often.parquet")
    >>> pq.write_table(pa.table({"id": [3]}), "/tmp/rarely.parquet")
    >>> often = make_batch_reader("file:///tmp/often.parquet", num_epochs=None)
    >>> rarely = make_batch_reader("file:///tmp/rarely.parquet", num_epochs=None)
    >>> with WeightedSamplingReader([often, rarely], [0.9, 0.1], seed=1) as reader:
    ...     batches = [next(reader) for _ in range(100)]
    >>> sum(3 in batch.id for batch in batches) < 30
    True
    """

    def __init__(
        self, readers: Sequence[Any], probabilities: Sequence[float], seed: int | None = None
    ) -> None:
        if len(readers) < 2:
            raise InvalidArgumentError(
                f"Two or more readers must be specified. Got {len(readers)}. Iterate over a single "
                "reader directly"
            )
        if len(readers) != len(probabilities):
            raise InvalidArgumentError(
                "readers and probabilities are expected to be lists of the same length, found "
                f"{len(readers)} and {len(probabilities)}"
            )
        _check_alike(readers)
        self._readers = list(readers)
        self._cum_prob = _cumulated(probabilities)
        self._mdstorm_random = np.random if seed is None else np.random.RandomState(seed)
        self.batched_output = readers[0].batched_output
        self.is_batched_reader = bool(self.batched_output)
        self.ngram = readers[0].ngram
        self.schema = readers[0].schema

    def __len__(self) -> int:
        return sum(len(reader) for reader in self._readers)

    def __iter__(self) -> WeightedSamplingReader:
        return self

    def __next__(self) -> Any:
        if self.last_row_consumed:  # later calls must not draw a different reader
            raise StopIteration
        drawn = self._mdstorm_random.random_sample()
        return next(self._readers[int(np.searchsorted(self._cum_prob, drawn, side="right"))])

    def next(self) -> Any:
        """Return the next row or batch."""
        return next(self)

    @property
    def last_row_consumed(self) -> bool:
        """Whether one of the readers has ended."""
        return any(getattr(reader, "last_row_consumed", False) for reader in self._readers)

    def stop(self) -> None:
        """Stop all readers."""
        for reader in self._readers:
            reader.stop()

    def join(self) -> None:
        """Wait for all readers' threads to end."""
        for reader in self._readers:
            reader.join()

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.stop()
        self.join()


def _check_alike(readers: Sequence[Any]) -> None:
    first = readers[0]
    for reader in readers:
        check_reader(reader)
        if is_reader(reader) and reader._mdstorm_arguments.added["row_numbers"]:
            raise UnsupportedArgumentError(
                "row_numbers= counts the rows of one dataset, and WeightedSamplingReader mixes "
                "several, so a number would not identify a row: store a column with an id instead"
            )
        if reader.batched_output != first.batched_output:
            raise InvalidArgumentError(
                "All readers passed to WeightedSamplingReader should have the same value of "
                '"batched_output" attribute: create all of them with make_reader, or all with '
                "make_batch_reader"
            )
        if set(reader.schema.fields) != set(first.schema.fields):
            raise InvalidArgumentError(
                "All readers passed to WeightedSamplingReader should have the same schema, found "
                f"the fields {list(first.schema.fields)} and {list(reader.schema.fields)}: choose "
                "the common ones with schema_fields"
            )
        if reader.ngram != first.ngram:
            raise InvalidArgumentError(
                "All readers passed to WeightedSamplingReader should have the same ngram spec"
            )


def _cumulated(probabilities: Sequence[float]) -> Any:
    """Return the cumulative probabilities of the readers."""
    try:
        weights = np.asarray(probabilities, np.float64)
    except (TypeError, ValueError):
        weights = np.empty(())
    if weights.ndim != 1 or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise InvalidArgumentError(
            f"probabilities must be non-negative numbers with a positive sum, found "
            f"{probabilities!r}"
        )
    cumulated = np.cumsum(weights / weights.sum())
    # Because of rounding, a drawn number could exceed the last bound.
    cumulated[np.flatnonzero(weights)[-1] :] = 1.0
    return cumulated
