"""Nulls in PyTorch batches are NaN or None, filled, masked, or raise errors."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.loaders import column, listed, torch_loader
from tests.kit.small_datasets import array_of, map_of, plan, struct_of, write_dataset

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.display import counted
from mdstorm_backend.errors import InvalidArgumentError, MDStormError, NullValueError
from mdstorm_backend.format import Column, Schema, SparkType
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.read import NullPolicy, objects

NAN = float("nan")


def write(directory: Path, spark_type: SparkType, values: list[Any]) -> Dataset:
    return write_dataset(directory, {"a": values}, {"a": spark_type}, shard_size=1)


def read(dataset: Dataset, **options: Any) -> dict[str, Any]:
    """Read all rows in single-row batches, and check that their dtypes are the same."""
    batches = list(torch_loader(dataset, batch_size=1, **options))
    joined: dict[str, Any] = {}
    for name, first in batches[0].items():
        parts = [batch[name] for batch in batches]
        if isinstance(first, torch.Tensor):
            assert {part.dtype for part in parts} == {first.dtype}
            joined[name] = torch.cat(parts)
        else:
            joined[name] = [value for part in parts for value in part]
    return joined


@pytest.mark.parametrize(
    ("spark_type", "values", "dtype"),
    [
        ("float", [0.5, None], torch.float32),
        ("double", [0.5, None], torch.float64),
        ("byte", [1, None], torch.float64),
        ("long", [1, None], torch.float64),
        ("interval day to second", [timedelta(microseconds=1), None], torch.float64),
        (array_of("float"), [[0.5, 1.0], [None, 2.0]], torch.float32),
        (array_of("integer"), [[1, 2], [None, 2]], torch.float64),
    ],
    ids=str,
)
def test_nulls_in_number_columns_are_nan(
    spark_type: SparkType, values: list[Any], dtype: torch.dtype, tmp_path: Path
) -> None:
    found = read(write(tmp_path, spark_type, values))["a"]
    assert found.dtype == dtype
    numbers = [1, None] if isinstance(values[0], timedelta) else values
    np.testing.assert_array_equal(found.numpy(), np.array(numbers, np.float64))


@pytest.mark.parametrize(
    ("spark_type", "values"),
    [
        ("string", ["é\0", None]),
        ("binary", [b"\0", None]),
        ("decimal(5,2)", [Decimal("1.50"), None]),
        ("date", [date(1, 1, 1), None]),
        (array_of("string"), [["a"], ["a", None], None]),
        (array_of("decimal(3,1)"), [[Decimal("1.5")], [], None]),
        (struct_of(x="long"), [{"x": 1}, {"x": None}, None]),
        (map_of("string", "long"), [[("a", 1)], [], None]),
    ],
    ids=str,
)
def test_columns_without_tensor_type_are_lists_containing_none(
    spark_type: SparkType, values: list[Any], tmp_path: Path
) -> None:
    for stored in (values[:1], values):
        found = read(write(tmp_path / str(len(stored)), spark_type, stored))["a"]
        assert isinstance(found, list)
        assert found == stored


REFUSED: list[tuple[SparkType, list[Any], int]] = [
    ("boolean", [True, None, None], 2),
    ("timestamp", [0, 1, None], 1),
    ("timestamp_ntz", [datetime(2020, 1, 1), None, None], 2),
    (array_of("boolean"), [[True, None], [None, False]], 2),
    (array_of("timestamp_ntz"), [[None], [datetime(2020, 1, 1)]], 1),
    (array_of("integer"), [[1, 2], None], 1),
    (array_of("integer"), [[1], [2, 3], None], 1),
    (array_of("float"), [[0.5, 1.0], None], 1),
]


@pytest.mark.parametrize(("spark_type", "values", "count"), REFUSED, ids=str)
def test_nulls_without_a_tensor_value_raise_error_before_the_first_batch(
    spark_type: SparkType, values: list[Any], count: int, tmp_path: Path
) -> None:
    # The first rows have no nulls.
    dataset = write_dataset(
        tmp_path,
        {"a": [values[0]] * 50 + values, "n": range(50 + len(values))},
        {"a": spark_type, "n": "long"},
        shard_size=1,
    )
    expected = dataset.schema["a"].null_count + dataset.schema["a"].element_null_count
    with pytest.raises(NullValueError) as caught:
        next(iter(torch_loader(dataset, batch_size=1)))
    assert isinstance(caught.value, (MDStormError, TypeError))
    assert isinstance(caught.value, ValueError)
    assert (caught.value.column, caught.value.null_count) == ("a", expected)
    message = str(caught.value)
    assert f"'a' holds {counted(expected, 'null')}, and PyTorch" in message
    for remedy in (
        "fill_nulls={'a': …}",
        "null_masks=['a']",
        "in the transform",
        # For nulls inside arrays, the error suggests filling in a value rather than dropping rows.
        "inside arrays" if dataset.schema["a"].element_null_count else "df.na.drop(subset=['a'])",
    ):
        assert remedy in message
    assert expected >= count
    # Unread columns have no effect.
    assert len(read(dataset, columns=["n"])["n"]) == len(dataset)


@pytest.mark.parametrize("chosen", [{"rows": [0, 2]}, {"where": [("n", "!=", 1)]}], ids=str)
@pytest.mark.parametrize(("spark_type", "value"), [("boolean", True), (array_of("long"), [1, 2])])
def test_only_nulls_in_chosen_rows_raise_error(
    spark_type: SparkType, value: Any, chosen: dict[str, Any], tmp_path: Path
) -> None:
    columns = {"a": [value, None, value], "n": range(3)}
    url = write_dataset(tmp_path / "data", columns, {"a": spark_type, "n": "long"}).url

    def numbers(**options: Any) -> list[list[int]]:
        dataset = StreamingDataset(local=url, order=ExactOrder(), batch_size=1, **options)
        return column(StreamingDataLoader(dataset, 1), "n")

    assert numbers(**chosen) == [[0], [2]]
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        numbers(rows=[0, 1])


@pytest.mark.parametrize(
    ("spark_type", "values", "fill", "expected"),
    [
        ("long", [1, None], 7, [1, 7]),
        ("float", [0.5, None], -1, [0.5, -1.0]),
        ("float", [NAN, None], 0.0, [NAN, 0.0]),
        ("boolean", [True, None], False, [1, 0]),
        ("timestamp", [1, None], 0, [1000, 0]),
        ("timestamp_ntz", [None, None], datetime(1970, 1, 1, 0, 0, 1), [10**9, 10**9]),
        ("date", [date(2020, 1, 1), None], date(1, 1, 1), [date(2020, 1, 1), date(1, 1, 1)]),
        ("string", ["a", None], "none", ["a", "none"]),
        ("binary", [b"a", None], b"", [b"a", b""]),
        ("decimal(5,2)", [None, None], Decimal("9.50"), [Decimal("9.50")] * 2),
        (array_of("integer"), [[1, 2], None], 7, [[1, 2], [7, 7]]),
        (array_of("integer"), [[1, None], None], 7, [[1, 7], [7, 7]]),
        (array_of("integer"), [[1], [2, None], None], 7, [[1], [2, 7], []]),
        (array_of("boolean"), [[True, None], None], True, [[1, 1], [1, 1]]),
        (array_of("string"), [["a"], None], ["x"], [["a"], ["x"]]),
        (array_of("string"), [["a"], None], np.array(["x"]), [["a"], ["x"]]),
        (array_of("string"), [["a", None], None, []], "none", [["a", "none"], [], []]),
        (array_of("string"), [["a", None]], "none", [["a", "none"]]),
        (array_of("binary"), [[b"a", None], [None]], b"x", [[b"a", b"x"], [b"x"]]),
        (
            array_of(array_of("string")),
            [[["a", None], None], None],
            "none",
            [[["a", "none"], []], []],
        ),
        (struct_of(x="long"), [{"x": 1}, None], {"x": 2}, [{"x": 1}, {"x": 2}]),
    ],
    ids=str,
)
def test_fill_nulls_replaces_nulls_of_each_type(
    spark_type: SparkType, values: list[Any], fill: Any, expected: list[Any], tmp_path: Path
) -> None:
    found = read(write(tmp_path, spark_type, values), fill_nulls={"a": fill})["a"]
    assert repr(listed(found)) == repr(expected)


def test_filled_integers_remain_integers(tmp_path: Path) -> None:
    dataset = write(tmp_path, "short", [1, None])
    assert read(dataset, fill_nulls={"a": 0})["a"].dtype == torch.int16
    matrix = write(tmp_path / "m", array_of("short"), [[1, None], None])
    found = read(matrix, fill_nulls={"a": 0})["a"]
    assert (found.dtype, found.shape) == (torch.int16, (2, 2))


@pytest.mark.parametrize(
    ("spark_type", "values", "expected"),
    [
        ("long", [1, None], [1, 0]),
        ("float", [0.5, None], [0.5, NAN]),
        ("boolean", [True, None], [1, 0]),
        ("timestamp", [1, None], [1000, 0]),
        ("date", [date(2020, 1, 1), None], [date(2020, 1, 1), date(1970, 1, 1)]),
        ("string", ["a", None], ["a", ""]),
        ("binary", [b"a", None], [b"a", b""]),
        ("decimal(5,2)", [Decimal("1.50"), None], [Decimal("1.50"), Decimal("0.00")]),
        ("interval day to second", [timedelta(microseconds=1), None], [1, 0]),
        (array_of("integer"), [[1, 2], None], [[1, 2], [0, 0]]),
        (array_of("float"), [[1.0, 2.0], None], [[1.0, 2.0], [NAN, NAN]]),
        (array_of("integer"), [[1], [2, 3], None], [[1], [2, 3], []]),
        (array_of("boolean"), [[True], None], [[1], [0]]),
        (array_of("string"), [["a"], None], [["a"], []]),
        (array_of("string"), [["a", None], ["b"]], [["a", ""], ["b"]]),
        (array_of("binary"), [[b"a", None], None], [[b"a", b""], []]),
        (struct_of(x="long"), [{"x": 1}, None], [{"x": 1}, None]),
    ],
    ids=str,
)
def test_null_masks_mark_null_rows(
    spark_type: SparkType, values: list[Any], expected: list[Any], tmp_path: Path
) -> None:
    found = read(write(tmp_path, spark_type, values), null_masks=["a"])
    assert list(found) == ["a", "a_is_null"]
    assert found["a_is_null"].dtype == torch.uint8
    assert found["a_is_null"].tolist() == [int(value is None) for value in values]
    assert repr(listed(found["a"])) == repr(expected)


@pytest.mark.parametrize("fill", [{}, {"a": 7}])
def test_null_arrays_among_arrays_of_different_shapes_are_filled(fill: Any) -> None:
    policy = NullPolicy(Schema((Column("a", "ndarray:int16", null_count=1),)), fill, ["a"])
    batch = policy({"a": objects([np.ones((1, 2), np.int16), None, np.ones((2, 2), np.int16)])})
    shapes = [array.shape for array in batch["a"]]
    assert (shapes[::2], batch["a"][1].tolist()) == ([(1, 2), (2, 2)], [])
    assert (batch["a"][1].dtype, batch["a_is_null"].tolist()) == (np.int16, [False, True, False])


@pytest.mark.parametrize("framework", ["PyTorch", "TensorFlow"])
def test_error_lists_all_columns_with_nulls(framework: str, tmp_path: Path) -> None:
    columns = {"t": [1, None], "b": [True, None], "x": [0.5, None], "a": [[1.0, None], None]}
    fields = {"t": "timestamp", "b": "boolean", "x": "double", "a": array_of("double")}
    dataset = write_dataset(tmp_path / "data", columns, fields)

    def use() -> None:
        if framework == "PyTorch":
            next(iter(torch_loader(dataset, batch_size=1)))
        from mdstorm_backend.loaders.tf import make_tf_dataset

        make_tf_dataset(lambda: ReaderOptions(dataset, ExactOrder().resolved()), batch_size=1)

    with pytest.raises(NullValueError) as caught:
        use()
    assert caught.value.columns == {"t": 1, "b": 1, "a": 2}
    assert (caught.value.column, caught.value.null_count) == ("t", 1)
    text = str(caught.value)
    assert f"columns 't' (1), 'b' (1), 'a' (2) hold nulls, and {framework}" in text
    assert "fill_nulls={'t': …, 'b': …, 'a': …}" in text
    assert "null_masks=['t', 'b', 'a']" in text


@pytest.mark.parametrize(
    ("spark_type", "values", "largest"),
    [
        ("long", [None, 2**53, 2**53 + 1], 2**53 + 1),
        ("long", [-(2**62), None, 7], -(2**62)),
        (array_of("long"), [[1, None], [2**60, 3]], 2**60),
    ],
    ids=str,
)
def test_integers_not_representable_as_floats_raise_error(
    tmp_path: Path, spark_type: SparkType, values: list[Any], largest: int
) -> None:
    dataset = write(tmp_path / "data", spark_type, values)
    said = rf"column 'a' holds nulls and the integer {largest}: .*fill_nulls=.*null_masks="
    with pytest.raises(NullValueError, match=said):
        read(dataset)
    samples = StreamingDataset(local=str(tmp_path / "data"), batch_size=1)
    with pytest.raises(NullValueError, match=said):
        list(samples)
    filled = read(dataset, fill_nulls={"a": 0})["a"]
    assert filled.dtype == torch.int64
    assert filled.abs().max() == torch.tensor(largest).abs()


def test_integers_up_to_2_to_the_53_with_nulls_become_floats(tmp_path: Path) -> None:
    dataset = write(tmp_path, "long", [None, 2**53, -(2**53)])
    assert read(dataset)["a"][1:].tolist() == [2.0**53, -(2.0**53)]


def test_array_length_is_known_if_one_task_wrote_only_nulls(tmp_path: Path) -> None:
    rows, fields = {"a": [None, [1.0, 2.0]]}, {"a": array_of("double")}
    dataset = write_dataset(tmp_path, rows, fields, tasks=2)
    assert dataset.schema["a"].length == 2
    assert read(dataset, fill_nulls={"a": 0})["a"].tolist() == [[0.0, 0.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("long", None, id="null"),
        pytest.param("long", -1.5, id="fraction-for-integer"),
        pytest.param("boolean", None, id="null-for-boolean"),
        pytest.param("byte", 300, id="too-large"),
        pytest.param("long", 2**70, id="far-too-large"),
        pytest.param("long", "x", id="string-for-integer"),
        pytest.param("boolean", 2, id="number-for-boolean"),
        pytest.param("string", 3, id="number-for-string"),
        pytest.param(array_of("integer"), 0.5, id="fraction-for-elements"),
        pytest.param("long", np.float32(1.5), id="fraction-of-numpy"),
        pytest.param("long", Decimal("1.5"), id="fraction-as-decimal"),
        pytest.param(array_of("integer"), [1, 2], id="array-for-elements"),
        pytest.param(array_of("integer"), np.array([1, 2]), id="array-of-numpy-for-elements"),
        pytest.param("float", 1e300, id="overflow-of-float"),
        pytest.param("date", datetime(2020, 1, 1, 5), id="hour-for-date"),
        pytest.param("date", np.datetime64("2020-01-01T05"), id="hour-of-numpy-for-date"),
        pytest.param("timestamp", 5.5, id="fraction-for-time"),
        pytest.param("timestamp", np.datetime64(1, "ns"), id="nanosecond-for-time"),
        pytest.param("timestamp", np.datetime64("NaT", "us"), id="no-time"),
    ],
)
def test_fill_value_that_does_not_fit_the_column_raises_error(type_: SparkType, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"fill_nulls gives .* for column 'q'"):
        NullPolicy(plan({"q": type_}), fill={"q": value})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("long", -1, id="integer"),
        pytest.param("long", 2.0, id="whole-float-for-integer"),
        pytest.param("double", -1, id="integer-for-float"),
        pytest.param("double", float("nan"), id="nan"),
        pytest.param("string", "", id="empty-string"),
        pytest.param("long", np.float32(2), id="whole-float-of-numpy"),
        pytest.param("float", 0.1, id="digits-that-a-float-rounds"),
        pytest.param("float", float("inf"), id="infinity"),
        pytest.param("date", datetime(2020, 1, 1), id="midnight-for-date"),
        pytest.param("timestamp", datetime(2020, 1, 1, 5), id="time"),
        pytest.param("timestamp", np.datetime64("2020-01-01T05"), id="time-of-numpy"),
        pytest.param("date", np.datetime64("2020-01-01"), id="date-of-numpy"),
        pytest.param("decimal(3,2)", 1, id="integer-for-decimal"),
    ],
)
def test_fill_value_that_fits_is_accepted(type_: SparkType, value: Any) -> None:
    assert NullPolicy(plan({"q": type_}), fill={"q": value}).fill == {"q": value}


@pytest.mark.parametrize(
    ("masks", "message"), [(["n"], "would replace the existing columns"), (["m", "m"], "twice")]
)
def test_mask_name_that_repeats_or_replaces_a_column_raises_error(
    masks: list[str], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        NullPolicy(plan({"n": "long", "n_is_null": "long", "m": "long"}), masks=masks)
