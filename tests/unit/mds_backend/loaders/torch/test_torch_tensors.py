from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.kit.loaders import listed

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import NullValueError
from mdstorm_backend.format import Column
from mdstorm_backend.loaders.times import nanoseconds
from mdstorm_backend.loaders.torch import to_torch, torch_tensors
from mdstorm_backend.loaders.torch.torch_tensors import split_values, to_collated


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1], np.uint8), torch.uint8),
        (np.array([1], np.uint16), torch.int32),
        (np.array([1], np.uint32), torch.int64),
        (np.array([1], np.float16), torch.float16),
        (np.array([True]), torch.uint8),
        (np.array(["1970-01-02"], "M8[ns]"), torch.int64),
    ],
)
def test_transformed_columns_are_converted_by_their_dtype(
    array: np.ndarray, dtype: torch.dtype
) -> None:
    found = to_torch(array, None, "a")
    assert isinstance(found, torch.Tensor)
    assert found.dtype == dtype


def test_unsigned_integers_are_widened_if_pytorch_has_no_unsigned_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column, values = Column("a", "uint16"), np.array([1], np.uint16)
    assert to_collated(values, column, "a").dtype == torch.uint16  # type: ignore[union-attr]
    monkeypatch.setattr(torch_tensors, "HAS_UNSIGNED", False)
    assert to_collated(values, column, "a").dtype == torch.int32  # type: ignore[union-attr]


def test_object_arrays_from_a_transform_become_lists() -> None:
    assert to_torch(np.array(["a", None], object), None, "a") == ["a", None]
    assert to_torch(np.array(["a", "b"]), None, "a") == ["a", "b"]


def test_conversion_of_a_transformed_arrow_column_depends_only_on_its_own_nulls() -> None:
    assert to_torch(pa.array([1, 2]), None, "a").dtype == torch.int64  # type: ignore[union-attr]
    assert to_torch(pa.array([1, None]), None, "a").dtype == torch.float64  # type: ignore[union-attr]
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        to_torch(pa.array([True, None]), None, "a")
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        to_torch(pa.array([[1], None]), None, "a")


def test_read_only_memory_is_copied() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    tensor = to_torch(array, None, "a")
    assert isinstance(tensor, torch.Tensor)
    tensor[:] = 7
    assert array.tolist() == [0, 1, 2]


def test_columns_are_cut_into_batches_as_views() -> None:
    tensor = torch.arange(5)
    first, second, third = split_values(tensor, [2, 0, 3])
    assert [listed(part) for part in (first, second, third)] == [[0, 1], [], [2, 3, 4]]
    assert isinstance(third, torch.Tensor)
    third[:] = 0
    assert tensor.tolist() == [0, 1, 0, 0, 0]
    assert split_values(["a", "b", "c"], [1, 2]) == [["a"], ["b", "c"]]


def test_gradients_can_be_computed_after_another_batch_was_modified() -> None:
    first, second = split_values(torch.ones(4), [2, 2])
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * first).sum()
    second.add_(1)
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 1]


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_timestamps_in_any_unit_become_nanoseconds(unit: str) -> None:
    array = np.array(["1970-01-02", "1969-12-31"], f"M8[{unit}]")
    found = nanoseconds(array, "when", "PyTorch")
    assert (found.dtype, found.tolist()) == (np.int64, [86_400 * 10**9, -86_400 * 10**9])


@pytest.mark.parametrize(
    ("outermost", "beyond"),
    [
        ("1677-09-21T00:12:43.145225", "1677-09-21T00:12:43.145223"),
        ("2262-04-11T23:47:16.854775", "2262-04-11T23:47:16.854776"),
    ],
)
def test_timestamp_out_of_nanosecond_range_raises_error_with_column_and_value(
    outermost: str, beyond: str
) -> None:
    found = listed(to_torch(np.array([[outermost]], "M8[us]"), None, "when"))
    assert np.datetime64(found[0][0], "ns") == np.datetime64(outermost)
    with pytest.raises(OverflowError, match=f"'when' holds the timestamp {beyond[:4]}") as caught:
        to_torch(np.array(["2000-01-01", beyond], "M8[us]"), None, "when")
    assert "unix_micros" in str(caught.value)


def test_error_states_the_number_of_nested_null_lists() -> None:
    for rows, nulls in (([[[1], None]], 1), ([[[1], None], None], 2)):
        with pytest.raises(NullValueError, match="PyTorch") as caught:
            to_torch(pa.array(rows), None, "v")
        assert caught.value.null_count == nulls


def test_error_states_the_number_of_missing_timestamps() -> None:
    with pytest.raises(NullValueError, match="'when' holds 2 nulls, and PyTorch") as caught:
        to_torch(np.array(["NaT", "2000-01-01", "NaT"], "M8[us]"), None, "when")
    assert (caught.value.column, caught.value.null_count) == ("when", 2)


def test_arrays_of_one_dtype_are_stacked_if_other_batches_have_another_dtype(
    tmp_path: Path,
) -> None:
    # As in MosaicML Streaming, which collates each batch separately.
    with MDSWriter(columns={"x": "ndarray"}, out=str(tmp_path)) as writer:
        for dtype in np.repeat(["i4", "f4"] * 4, 2):
            writer.write({"x": np.ones(3, dtype)})
    batches = list(StreamingDataLoader(StreamingDataset(local=str(tmp_path)), batch_size=2))
    assert [listed(batch["x"]) for batch in batches] == 8 * [[[1, 1, 1]] * 2]
    assert [batch["x"].dtype for batch in batches] == 4 * [torch.int32, torch.float32]
