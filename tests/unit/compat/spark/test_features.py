"""Model inputs: `features`, `labels`, `sample_weights`, `stack`, `batch_map`."""

import pickle
from collections.abc import Callable
from decimal import Decimal
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import torch
from tests.unit.compat.spark.converters import converter_of

from mdstorm import TransformSpec
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import MDSWriter, open_dataset

ROWS = 1300
FLOATS = ("a", "b", "c", "d", "e")
#: All columns in stored and in reverse order, two columns apart, two adjacent columns, one column.
CHOICES = [["a", "b", "c", "d", "e"], ["e", "d", "c", "b", "a"], ["d", "a"], ["b", "c"], ["c"]]
ORDERS: dict[str, dict[str, Any]] = {
    "in order": {"shuffle_row_groups": False},
    "rows": {"shuffle_rows": True, "seed": 1},
    "windows": {"shuffling_queue_capacity": 400, "seed": 1},
    "whole epoch": {"shuffling_queue_capacity": 1 << 20, "seed": 1},
    "elastic": {"order": "elastic", "seed": 1},
}

Batches = Callable[..., list[Any]]


def rows_of(factor: int) -> list[float]:
    return [float(factor * ROWS + n) for n in range(ROWS)]


COLUMNS: dict[str, list[Any]] = {
    **{name: rows_of(factor) for factor, name in enumerate(FLOATS)},
    "flag": [n % 3 == 0 for n in range(ROWS)],
    "n": list(range(ROWS)),
    "m": [-n for n in range(ROWS)],
    "label": [n % 7 for n in range(ROWS)],
}
FIELDS = {
    **dict.fromkeys(FLOATS, "float"),
    "flag": "boolean",
    **dict.fromkeys(["n", "m", "label"], "long"),
}


@pytest.fixture(scope="module", params=["records", "with strings", "parquet"])
def converter(request: Any, tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    """MDS shards with fixed-size or variable-size samples, or Parquet row groups."""
    folder = tmp_path_factory.mktemp("data") / "data"
    columns, fields = COLUMNS, FIELDS
    if request.param == "parquet":
        folder.mkdir()
        types = {"float": pa.float32(), "boolean": pa.bool_(), "long": pa.int64()}
        table = {name: pa.array(columns[name], types[type_]) for name, type_ in fields.items()}
        pq.write_table(pa.table(table), folder / "part.parquet", row_group_size=170)
        return SparkDatasetConverter(None, [f"file://{folder}/part.parquet"], ROWS)
    if request.param == "with strings":
        columns = {**columns, "text": [str(n) for n in range(ROWS)]}
        fields = {**fields, "text": "string"}
    return converter_of(folder, columns, fields, shard_size=9000, batch_rows=100)


def with_torch(converter: SparkDatasetConverter, **arguments: Any) -> list[Any]:
    loader = converter.make_torch_dataloader(64, num_epochs=1, **arguments)
    return [tuple(t.numpy() for t in x) if isinstance(x, tuple) else x.numpy() for x in loader]


def with_tf(converter: SparkDatasetConverter, **arguments: Any) -> list[Any]:
    made: Any = converter.make_tf_dataset(64, num_epochs=1, **arguments)
    return list(made.as_numpy_iterator())


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("batches", "order"),
    [
        *((with_torch, order) for order in ORDERS.values()),
        (with_tf, ORDERS["windows"]),
        *(pytest.param(with_tf, one, marks=pytest.mark.long) for one in ORDERS.values()),
    ],
)
def test_stacked_matrix_has_columns_in_features_order(
    converter: SparkDatasetConverter, batches: Batches, order: dict[str, Any]
) -> None:
    for names in CHOICES:
        seen = []
        for x, y in batches(converter, features=names, labels="n", stack=True, **order):
            assert (x.shape, x.dtype, y.dtype) == ((len(y), len(names)), np.float32, np.int64)
            expected = [[COLUMNS[name][n] for name in names] for n in y.tolist()]
            assert x.tolist() == expected
            seen += y.tolist()
        assert sorted(seen) == list(range(ROWS))


@pytest.mark.matrix
@pytest.mark.parametrize("batches", [with_torch, with_tf])
def test_stack_applies_to_labels_and_weights(
    converter: SparkDatasetConverter, batches: Batches
) -> None:
    named = {"features": ["b", "a"], "labels": ["n", "m"], "sample_weights": ["a"]}
    x, y, weights = batches(converter, **named, stack=True, shuffle_row_groups=False)[1]
    assert x.tolist() == [[COLUMNS["b"][n], COLUMNS["a"][n]] for n in range(64, 128)]
    assert y.tolist() == [[n, -n] for n in range(64, 128)]
    assert weights.tolist() == [[COLUMNS["a"][n]] for n in range(64, 128)]
    x, same = batches(converter, features=["a", "c"], labels=["a", "c"], stack=True)[0]
    assert x.tolist() == same.tolist()


def test_features_default_to_all_other_columns(converter: SparkDatasetConverter) -> None:
    fields = [*FLOATS[::-1], "label"]
    named = {"labels": "label", "schema_fields": fields, "stack": True}
    for batches in (with_torch, with_tf):
        x, y = batches(converter, **named, shuffle_row_groups=False)[0]
        assert x.tolist() == [[COLUMNS[name][n] for name in FLOATS] for n in range(64)]
        assert y.tolist() == COLUMNS["label"][:64]


@pytest.mark.matrix
@pytest.mark.parametrize("batches", [with_torch, with_tf])
def test_transform_columns_can_be_stacked(
    converter: SparkDatasetConverter, batches: Batches
) -> None:
    def halve(frame: Any) -> Any:
        frame["half"] = (frame["a"] / 2).astype("float32")
        return frame[frame["n"] % 2 == 0][["half", "b", "n"]]

    edited, selected = [("half", np.float32, (), False)], ["half", "b", "n"]
    spec = TransformSpec(halve, edit_fields=edited, selected_fields=selected)
    named = {"features": ["b", "half"], "labels": "n", "stack": True}
    made = batches(converter, **named, transform_spec=spec, shuffle_rows=True, seed=1)
    rows = sorted((n, *row) for x, y in made for n, row in zip(y.tolist(), x.tolist(), strict=True))
    expected = [(n, COLUMNS["b"][n], COLUMNS["a"][n] / 2) for n in range(0, ROWS, 2)]
    assert rows == expected


@pytest.fixture(scope="module")
def with_nulls(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    columns = {"x": [1.0, None, 3.0], "y": [4.0, 5.0, 6.0], "n": [1, None, 3], "k": [7, 8, 9]}
    fields = {"x": "float", "y": "float", "n": "long", "k": "long"}
    return converter_of(tmp_path_factory.mktemp("nulls") / "data", columns, fields)


def test_null_floats_become_nan_in_stacked_matrix(with_nulls: SparkDatasetConverter) -> None:
    for batches in (with_torch, with_tf):
        (x,) = batches(with_nulls, features=["x", "y"], stack=True, shuffle_row_groups=False)
        assert np.array_equal(x, [[1, 4], [np.nan, 5], [3, 6]], equal_nan=True)


def test_null_integers_in_stacked_matrix_raise_error_unless_filled(
    with_nulls: SparkDatasetConverter,
) -> None:
    for batches in (with_torch, with_tf):
        with pytest.raises(NullValueError, match=r"'n' \(1\) hold nulls.*fill_nulls=\{'n': …\}"):
            batches(with_nulls, features=["n", "k"], stack=True)
        filled = {"fill_nulls": {"n": -1}, "shuffle_row_groups": False}
        (x,) = batches(with_nulls, features=["n", "k"], stack=True, **filled)
        assert (x.tolist(), x.dtype) == ([[1, 7], [-1, 8], [3, 9]], np.int64)
        for argument in ("filters", "where"):
            left_out = {argument: [("n", "!=", None)]}
            (x,) = batches(with_nulls, features=["n", "k"], stack=True, **left_out)
            assert sorted(x.tolist()) == [[1, 7], [3, 9]]


def test_nulls_without_statistics_in_stacked_matrix_raise_error(tmp_path: Path) -> None:
    table = pa.table({"n": [1, None, 3], "k": [7, 8, 9]})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    converter = SparkDatasetConverter(None, [f"file://{tmp_path}/t.parquet"], 3)
    with pytest.raises(NullValueError, match=r"'n' \(1\) hold nulls"):
        with_torch(converter, features=["k", "n"], stack=True)
    (x,) = with_torch(converter, features=["k"], stack=True, shuffle_row_groups=False)
    assert x.tolist() == [[7], [8], [9]]


VECTORS = [[n + 0.25, n + 0.5] for n in range(6)]


@pytest.mark.matrix
@pytest.mark.parametrize("batches", [with_torch, with_tf])
@pytest.mark.parametrize("in_place", [False, True], ids=["mds", "parquet"])
def test_vectors_are_stacked_with_numbers(
    tmp_path: Path, batches: Batches, *, in_place: bool
) -> None:
    converter = converter_of(
        tmp_path / "mds",
        {"n": range(6), "v": VECTORS},
        {"n": "long", "v": {"type": "array", "elementType": "double", "containsNull": True}},
    )
    if in_place:
        pq.write_table(pa.table({"n": range(6), "v": VECTORS}), tmp_path / "t.parquet")
        converter = SparkDatasetConverter(None, [f"file://{tmp_path}/t.parquet"], 6)
    for names, dtype in ((["v"], True), (["n", "v"], True), (["v", "n"], "float32")):
        ((x, y),) = batches(converter, features=names, labels="n", stack=dtype)
        rows = [{"n": [float(n)], "v": VECTORS[n]} for n in y.tolist()]
        assert x.tolist() == [[value for name in names for value in row[name]] for row in rows]
        assert x.dtype == (np.float64 if dtype is True else np.float32)


@pytest.mark.parametrize(
    ("vectors", "error", "message"),
    [
        ([[1], [1, 2]], InvalidArgumentError, r"'v' (differ in length|has .* values)"),
        ([[1], [None]], NullValueError, r"'v' \(1\) hold nulls"),
        ([[1], None], NullValueError, r"'v' \(1\) hold nulls"),
    ],
)
def test_vectors_that_cannot_be_stacked_are_named_in_error(
    tmp_path: Path, vectors: Any, error: type[Exception], message: str
) -> None:
    pq.write_table(pa.table({"n": [1, 2], "v": vectors}), tmp_path / "t.parquet")
    converter = SparkDatasetConverter(None, [f"file://{tmp_path}/t.parquet"], 2)
    with pytest.raises(error, match=message):
        with_torch(converter, features=["n", "v"], stack=True)


@pytest.mark.parametrize("batches", [with_torch, with_tf])
def test_column_that_cannot_be_stacked_is_named_in_error(tmp_path: Path, batches: Batches) -> None:
    columns = {"a": [1.0], "price": [Decimal("2.50")], "text": ["t"]}
    fields = {"a": "float", "price": "decimal(10,2)", "text": "string"}
    converter = converter_of(tmp_path / "data", columns, fields)
    for features, message in (
        (["a", "text"], "column 'text' has string values: leave it out"),
        (["a", "price"], r"'price' has decimal\(10,2\) values: pass decimals=\"float64\""),
        (None, "but none of these was passed"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            batches(converter, stack=True, features=features)
    (x,) = batches(converter, stack=True, features=["a", "price"], decimals="float32")
    assert (x.tolist(), x.dtype) == ([[1.0, 2.5]], np.float32)


@pytest.mark.matrix
@pytest.mark.parametrize("batches", [with_torch, with_tf])
@pytest.mark.parametrize(
    ("names", "stack", "dtype"),
    [
        (["a", "n", "flag"], "float32", np.float32),
        (["n", "a"], True, np.float64),
        (["label", "flag"], "uint16", np.int32),  # uint16 becomes int32, as in a single column
        (["a", "b"], np.dtype("int64"), np.int64),
    ],
)
def test_stack_casts_to_given_dtype_or_numpy_result_type(
    converter: SparkDatasetConverter,
    batches: Batches,
    names: list[str],
    stack: Any,
    dtype: type[np.generic],
) -> None:
    for order in ({"shuffle_row_groups": False}, {"shuffle_rows": True, "seed": 1}):
        made = batches(converter, features=names, labels="n", stack=stack, **order)
        seen = []
        for x, y in made:
            assert (x.shape, x.dtype) == ((len(y), len(names)), dtype)
            with np.errstate(over="raise"):
                expected = [[dtype(COLUMNS[name][n]) for name in names] for n in y.tolist()]
            assert x.tolist() == np.array(expected).tolist()
            seen += y.tolist()
        assert sorted(seen) == list(range(ROWS))


@pytest.mark.parametrize(
    ("first", "second", "stacked"),
    [
        ("uint16", "float32", np.float32),
        ("uint16", "uint8", np.int32),  # uint16 becomes int32, as in a single column
        ("uint32", "float32", np.float64),
    ],
)
def test_stacked_unsigned_columns_have_same_dtype_in_both_frameworks(
    tmp_path: Path, first: str, second: str, stacked: type[np.generic]
) -> None:
    with MDSWriter(columns={"a": first, "b": second}, out=str(tmp_path / "data")) as writer:
        writer.write({"a": np.dtype(first).type(65535), "b": np.dtype(second).type(2)})
    dataset = open_dataset(str(tmp_path / "data"))
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, 1)
    spec = TransformSpec(lambda frame: frame, edit_fields=[("a", np.dtype(first).type, (), False)])
    for batches, transform in product((with_torch, with_tf), (None, spec)):
        (x,) = batches(converter, features=["a", "b"], stack=True, transform_spec=transform)
        assert (x.dtype, x.tolist()) == (stacked, [[65535, 2]]), batches


@pytest.mark.parametrize("batches", [with_torch, with_tf])
def test_values_not_representable_in_stacked_dtype_raise_error(
    tmp_path: Path, batches: Batches
) -> None:
    columns = {"a": [0.5, 1e30], "n": [1, (1 << 24) + 1], "key": [0, -(1 << 53) - 1]}
    fields = {"a": "double", "n": "long", "key": "long"}
    converter = converter_of(tmp_path / "data", columns, fields)
    for names, stack, message in (
        (
            ["a", "n"],
            "float32",
            "'n' has the value 16777217, .* of float32 .*: pass stack=\"float64\"",
        ),
        (
            ["n", "key"],
            "float64",
            "'key' has the value -9007199254740993, .*: pass stack=\"int64\"",
        ),
        (["a", "key"], True, "'key' has .* no dtype holds it together with floating-point columns"),
    ):
        error = tf.errors.InvalidArgumentError if batches is with_tf else InvalidArgumentError
        with pytest.raises(error, match=message):
            batches(converter, features=names, stack=stack)


@pytest.mark.matrix
@pytest.mark.parametrize("batches", [with_torch, with_tf])
@pytest.mark.parametrize("stack", ["yes", "str", "complex64", 1, None, torch.float32])
def test_invalid_stack_argument_raises_error(
    converter: SparkDatasetConverter, batches: Batches, stack: Any
) -> None:
    error = InvalidArgumentError if isinstance(stack, str) else ArgumentTypeError
    with pytest.raises(error, match=f"stack must be True, .* found {stack!r}"):
        batches(converter, features=["a", "b"], stack=stack)


def test_stacked_features_element_spec_has_number_of_columns(
    converter: SparkDatasetConverter,
) -> None:
    made: Any = converter.make_tf_dataset(64, num_epochs=1, features=["a", "b"], stack=True)
    assert made.element_spec == tf.TensorSpec((None, 2), tf.float32)


#: The columns of one row.
ROW = {"a": 1, "b": 2, "y": 3, "w": 4}


@pytest.fixture(scope="module")
def one_row(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    columns, fields = {name: [value] for name, value in ROW.items()}, dict.fromkeys(ROW, "long")
    return converter_of(tmp_path_factory.mktemp("row") / "data", columns, fields)


def plain(entry: Any) -> Any:
    """Return a batch of one row with numbers in place of its tensors."""
    if isinstance(entry, dict):
        return {name: plain(values) for name, values in entry.items()}
    return tuple(map(plain, entry)) if isinstance(entry, tuple) else entry.item()


@pytest.mark.parametrize(
    ("inputs", "taken"),
    [
        ({}, ROW),
        ({"features": "a"}, 1),
        ({"features": ["a"]}, {"a": 1}),
        ({"features": "a", "labels": "y"}, (1, 3)),
        ({"features": ["b", "a"], "labels": ["y"]}, ({"b": 2, "a": 1}, {"y": 3})),
        ({"features": "a", "labels": "a"}, (1, 1)),
        ({"labels": "y"}, ({"a": 1, "b": 2, "w": 4}, 3)),
        ({"labels": "y", "sample_weights": "w"}, ({"a": 1, "b": 2}, 3, 4)),
        ({"features": "a", "labels": ("y",), "sample_weights": "w"}, (1, {"y": 3}, 4)),
    ],
)
def test_one_feature_name_yields_tensor_and_several_yield_dict(
    one_row: SparkDatasetConverter, inputs: dict[str, Any], taken: Any
) -> None:
    loader = one_row.make_torch_dataloader(1, num_epochs=1, **inputs)
    for each in (loader, pickle.loads(pickle.dumps(loader))):  # noqa: S301 - our own bytes
        assert plain(next(iter(each))) == taken
    columns = inputs.values() if "features" in inputs else ROW
    assert {*loader.dataset[0]} == {*chain(*columns)}  # each name is one letter
    if inputs:
        made: Any = one_row.make_tf_dataset(1, num_epochs=1, **inputs)
        assert plain(next(made.as_numpy_iterator())) == taken


def test_batch_map_result_is_yielded(one_row: SparkDatasetConverter) -> None:
    loader = one_row.make_torch_dataloader(1, 1, batch_map=lambda batch: batch["a"] + batch["b"])
    assert [batch.tolist() for batch in loader] == [[3]]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"features": ["a", "label"]}, "features contains 'label', but batches have"),
        ({"labels": "yy"}, "labels contains 'yy', .* did you mean y"),
        ({"features": ["a", "a"]}, "must list at least one column, without duplicates"),
        ({"labels": ["a", "b", "y", "w"]}, "no columns remain for the features"),
    ],
)
def test_unknown_feature_name_raises_error(
    one_row: SparkDatasetConverter, inputs: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        next(iter(one_row.make_torch_dataloader(1, **inputs)))
