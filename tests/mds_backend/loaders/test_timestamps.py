from __future__ import annotations

import numpy as np
import pytest

from mdstorm_backend.errors import NullValueError
from mdstorm_backend.loaders.timestamps import nanoseconds


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_any_unit_becomes_nanoseconds(unit: str) -> None:
    array = np.array(["1970-01-02", "1969-12-31"], f"M8[{unit}]")
    found = nanoseconds(array, "when", "PyTorch")
    assert found.dtype == np.int64
    assert found.tolist() == [86_400_000_000_000, -86_400_000_000_000]


def test_matrices_and_empty_arrays_keep_their_shape() -> None:
    assert nanoseconds(np.zeros((2, 3), "M8[us]"), "when", "PyTorch").shape == (2, 3)
    assert nanoseconds(np.zeros(0, "M8[us]"), "when", "PyTorch").shape == (0,)


@pytest.mark.parametrize("text", ["1677-09-21T00:12:43.145225", "2262-04-11T23:47:16.854775"])
def test_the_outermost_timestamps_fit(text: str) -> None:
    (found,) = nanoseconds(np.array([text], "M8[us]"), "when", "PyTorch").tolist()
    assert np.datetime64(found, "ns") == np.datetime64(text)


@pytest.mark.parametrize(
    "text", ["1677-09-21T00:12:43.145223", "2262-04-11T23:47:16.854776", "9999"]
)
def test_others_are_an_error_that_names_column_and_value(text: str) -> None:
    with pytest.raises(OverflowError, match=f"'when' holds the timestamp {text[:4]}") as caught:
        nanoseconds(np.array(["2000-01-01", text], "M8[us]"), "when", "PyTorch")
    assert "CAST" in str(caught.value)


def test_missing_timestamps_are_counted() -> None:
    with pytest.raises(NullValueError, match="'when' holds 2 nulls, and PyTorch") as caught:
        nanoseconds(np.array(["NaT", "2000-01-01", "NaT"], "M8[us]"), "when", "PyTorch")
    assert (caught.value.column, caught.value.null_count) == ("when", 2)
