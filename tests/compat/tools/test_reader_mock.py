"""`ReaderMock`, as programs use it in tests of their own."""

from decimal import Decimal

import numpy as np
import pytest

from mdstorm.ngram import NGram
from mdstorm.test_util.reader_mock import ReaderMock, schema_data_generator_example
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.weighted_sampling_reader import WeightedSamplingReader

SCHEMA = Unischema(
    "Sch",
    [
        UnischemaField("id", np.int64, (), None, False),
        UnischemaField("image", np.float32, (2, None), None, False),
        UnischemaField("prices", Decimal, (2,), None, False),
    ],
)


def test_its_rows_are_zeros_in_the_shapes_of_the_schema() -> None:
    mock = ReaderMock(SCHEMA, schema_data_generator_example)
    row = next(iter(mock))
    assert type(mock.fetch()) is type(mock.next()) is type(row)
    assert (row.image.dtype, row.image.shape) == (np.float32, (2, 10))
    assert {type(price) for price in row.prices} == {Decimal}


def test_it_goes_where_a_reader_goes() -> None:
    with ReaderMock(SCHEMA, schema_data_generator_example) as mock:
        assert next(WeightedSamplingReader([mock, mock], [1, 1])).id == 0


def test_it_has_no_n_grams() -> None:
    ngram = NGram({0: ["id"]}, 1, "id")
    with pytest.raises(ValueError, match="Sequence argument not supported for ReaderMock"):
        ReaderMock(SCHEMA, schema_data_generator_example, ngram)
