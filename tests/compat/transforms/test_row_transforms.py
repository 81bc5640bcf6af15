"""Transforms of the row reader: a dict per row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.readers import row_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm.errors import TransformError
from mdstorm.reader import make_reader

GOLDEN = Path(__file__).parents[1] / "etl" / "golden"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write_parquet(tmp_path, {"id": [0, 1, 2], "name": ["a", "b", None]}, row_group_size=2)


def rows(url: str, function: Any, *specification: Any, **arguments: Any) -> list[Any]:
    with row_reader(url, transform_spec=TransformSpec(function, *specification), **arguments) as r:
        return list(r)


def test_texts_and_bytes_come_as_the_function_returned_them(url: str) -> None:
    new = [("text", np.str_, (), False), ("data", np.bytes_, (), False)]
    found = rows(url, lambda row: {**row, "text": f"{row['id']}", "data": b"1"}, new)
    assert [type(value) for value in found[0]] == [np.int64, np.str_, str, bytes]


def test_declared_fields_come_last_and_have_the_declared_type(url: str) -> None:
    found = rows(
        url,
        lambda row: {**row, "id": float(row["id"]), "image": np.full((2, 2), row["id"])},
        [("image", np.float32, (2, 2), False), ("id", np.float32, (), False)],
    )
    assert found[0]._fields == ("name", "image", "id")
    assert found[1].image.dtype == np.float32
    assert found[1].image.tolist() == [[1, 1], [1, 1]]
    assert type(found[1].id) is np.float32


def test_selected_fields_without_a_function_select(url: str) -> None:
    assert {row._fields for row in rows(url, None, None, None, ["name"])} == {("name",)}


@pytest.mark.parametrize(
    "spec",
    [
        TransformSpec(lambda row: row),
        TransformSpec(removed_fields=["vec"]),
        TransformSpec(edit_fields=[("id", np.int32, (), False)]),
        TransformSpec(selected_fields=["id", "png", "grey"]),
    ],
    ids=["function", "removed", "edited", "selected"],
)
@pytest.mark.parametrize("pool", ["dummy", pytest.param("process", marks=pytest.mark.long)])
def test_images_that_it_leaves_alone_are_decoded(spec: TransformSpec, pool: str) -> None:
    url = f"file://{GOLDEN / 'codecs'}"
    with make_reader(url, shuffle_row_groups=False) as reader:
        expected = [(row.png.tolist(), row.grey.tolist()) for row in reader]
    with make_reader(
        url, shuffle_row_groups=False, reader_pool_type=pool, transform_spec=spec
    ) as reader:
        assert [(row.png.tolist(), row.grey.tolist()) for row in reader] == expected


def test_arrays_of_several_shapes(url: str) -> None:
    declared = [("x", np.int64, (None,), False)]
    found = rows(url, lambda row: {"x": np.arange(row["id"])}, declared, None, ["x"])
    assert [row.x.tolist() for row in found] == [[], [0], [0, 1]]


def test_lists_become_arrays_where_a_shape_is_declared(url: str) -> None:
    declared = [("x", np.float32, (2,), False)]
    found = rows(url, lambda row: {"x": [row["id"], 1]}, declared, None, ["x"])
    assert [row.x.tolist() for row in found] == [[0, 1], [1, 1], [2, 1]]
    assert found[0].x.dtype == np.float32
    with pytest.raises(TransformError, match=r"column 'x' .* a list that is not an array"):
        rows(url, lambda row: {"x": [[1], [1, 2]]}, declared, None, ["x"])


def test_objects_pass_through(url: str) -> None:
    declared = [("x", np.object_, (), True)]
    found = rows(url, lambda row: {"x": {"n": [1]}}, declared, None, ["x"])
    assert [row.x for row in found] == [{"n": [1]}] * 3


def test_tensors_arrive_as_arrays(url: str) -> None:
    torch = pytest.importorskip("torch")
    declared = [("x", np.float32, (2,), False)]
    found = rows(url, lambda row: {"x": torch.ones(2)}, declared, None, ["x"])
    assert [type(row.x) for row in found] == [np.ndarray] * 3
