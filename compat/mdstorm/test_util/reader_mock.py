"""`ReaderMock`: a reader of generated rows, without a dataset."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm.errors import InvalidArgumentError
from mdstorm.ngram import NGram
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend.base import OwnContext

__all__ = ["ReaderMock", "schema_data_generator_example"]

#: Size of a free dimension.
_FREE_DIMENSION = 10


class ReaderMock(OwnContext):
    """An endless reader of made-up rows, with the protocol of the row reader.

    Parameters
    ----------
    schema : Unischema
        The fields of a row.
    schema_data_generator : callable
        Takes the schema and returns a row as a dict, such as `schema_data_generator_example`.
    ngram : NGram, optional
        Makes each item an n-gram of rows.

    Raises
    ------
    InvalidArgumentError
        If `ngram` is given: Petastorm's mock supports none either.
    """

    def __init__(
        self,
        schema: Unischema,
        schema_data_generator: Callable[[Unischema], dict[str, Any]],
        ngram: NGram | None = None,
    ) -> None:
        if ngram is not None:
            raise InvalidArgumentError(
                "Sequence argument not supported for ReaderMock: leave ngram out"
            )
        self.schema = schema
        self.schema_data_generator = schema_data_generator
        self.ngram = ngram
        self.batched_output = False
        self.is_batched_reader = False
        self.last_row_consumed = False

    def fetch(self) -> Any:
        """Return a row as the namedtuple of the schema."""
        return self.schema.make_namedtuple(**self.schema_data_generator(self.schema))

    def __iter__(self) -> ReaderMock:
        return self

    def __next__(self) -> Any:
        return self.fetch()

    def next(self) -> Any:
        """Return a row."""
        return self.fetch()

    def stop(self) -> None:
        """Do nothing."""

    def join(self) -> None:
        """Do nothing."""

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.stop()
        self.join()


def schema_data_generator_example(schema: Unischema) -> dict[str, Any]:
    """Return a row of zeros and empty strings.

    Each value is an array of the dtype and shape of its field, of ten elements along every
    dimension that the field leaves free; that of a scalar has no dimensions. The value of a scalar
    decimal is a `Decimal`.
    """
    return {name: _zeros(field) for name, field in schema.fields.items()}


def _zeros(field: UnischemaField) -> Any:
    shape = [_FREE_DIMENSION if size is None else size for size in field.shape]
    if field.numpy_dtype is not Decimal:
        return np.zeros(shape, field.numpy_dtype)
    zero = Decimal("0.0")
    return np.full(shape, zero, object) if shape else zero
