"""Predicates of one's own in the batch reader, which gives them pandas DataFrames."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from petastorm.predicates import PredicateBase
from tests.conformance.describing import error_of
from tests.conformance.place import Place
from tests.conformance.reading import batches


class _Asking(PredicateBase):
    """A predicate that asks a function."""

    def __init__(self, fields: Any, function: Callable[[Any], Any]) -> None:
        self.fields = fields
        self.function = function

    def get_fields(self) -> Any:
        return self.fields

    def do_include(self, values: Any) -> Any:
        return self.function(values)


def _table(place: Place) -> str:
    columns = {"id": np.arange(6), "x": np.arange(6) / 2, "name": list("abcabc")}
    return place.parquet(columns, group=4)


def _included(place: Place, fields: list[str], function: Callable[[Any], Any]) -> list[list[int]]:
    found = batches(_table(place), predicate=_Asking(fields, function))
    return [[int(id_) for id_ in batch.id] for batch in found]


def what_comes_in(place: Place) -> Any:
    seen: list[Any] = []

    def look(frame: Any) -> Any:
        index = frame.index
        seen.append([type(frame), sorted(frame.columns), frame.shape, len(frame)])
        seen.append([type(index), index.start, index.stop, index.step])
        return frame["id"] >= 0

    return [_included(place, ["x", "id"], look), seen]


def types_of_columns(place: Place) -> Any:
    seen: dict[str, Any] = {}
    noon = datetime.datetime(2020, 1, 1, 12)
    columns = {
        "byte": pa.array([1, 2], pa.int8()),
        "number": pa.array([1, 2], pa.int32()),
        "hole": pa.array([1, None], pa.int32()),
        "half": pa.array([0.5, 1.5], pa.float32()),
        "flag": [True, False],
        "maybe": [True, None],
        "text": ["a", None],
        "data": [b"a", b"b"],
        "day": [datetime.date(2020, 1, 1), None],
        "time": pa.array([noon, None], pa.timestamp("us")),
        "price": [decimal.Decimal("1.50"), None],
        "list": [[1, 2], [3, 4]],
    }

    def look(frame: Any) -> Any:
        for name in columns:
            cells = [None if cell is None else type(cell) for cell in frame[name]]
            seen[name] = [frame[name].dtype.kind, cells]
        return frame["number"] > 0

    batches(place.parquet(columns), predicate=_Asking(list(columns), look))
    return seen


def a_comparison(place: Place) -> Any:
    return _included(place, ["id"], lambda frame: frame["id"] > 1)


def columns_are_attributes(place: Place) -> Any:
    return _included(place, ["id", "x"], lambda frame: (frame.id > 1) & (frame.x < 2.5))


def the_number_of_rows(place: Place) -> Any:
    return _included(place, ["id"], lambda frame: frame.id != len(frame) - 1)


def several_columns_at_once(place: Place) -> Any:
    return _included(place, ["id", "x"], lambda frame: (frame[["id", "x"]] >= 2).all(axis=1))


def an_expression(place: Place) -> Any:
    return _included(place, ["id", "x"], lambda frame: frame.eval("id > 1 and x < 2.5"))


def a_function_of_each_row(place: Place) -> Any:
    def of_row(row: Any) -> bool:
        return bool(row["id"] > 1 and row["name"] == "c")

    return _included(place, ["id", "name"], lambda frame: frame.apply(of_row, axis=1))


def values_of_a_set(place: Place) -> Any:
    return _included(place, ["name"], lambda frame: frame["name"].isin({"b", "c"}))


def values_of_a_set_in_all_columns(place: Place) -> Any:
    return _included(place, ["id"], lambda frame: frame.isin([1, 5])["id"])


def texts(place: Place) -> Any:
    return _included(place, ["name"], lambda frame: frame.name.str.upper() == "A")


def as_a_mapping(place: Place) -> Any:
    def look(frame: Any) -> Any:
        found = dict(frame.items())
        return (found["id"] > 1) & (frame.get("x") < 2.5) & ("nothing" not in frame)

    return _included(place, ["id", "x"], look)


def the_truths_may_be_objects(place: Place) -> Any:
    return _included(place, ["id"], lambda frame: (frame["id"] > 1).astype(object))


def the_truths_are_found_by_their_index(place: Place) -> Any:
    return _included(place, ["id"], lambda frame: (frame["id"] > 1)[::-1])


def columns_that_are_not_asked_for(place: Place) -> Any:
    return error_of(lambda: _included(place, ["id"], lambda frame: frame["x"] > 1))


def an_attribute_that_is_not_there(place: Place) -> Any:
    return error_of(lambda: _included(place, ["id"], lambda frame: frame.nothing > 1))


def errors_of_ones_own(place: Place) -> Any:
    def fail(frame: Any) -> Any:
        raise RuntimeError("my own")

    return error_of(lambda: _included(place, ["id"], fail), "my own")


def an_array_of_truths(place: Place) -> Any:
    return error_of(lambda: _included(place, ["id"], lambda frame: (frame.id > 1).to_numpy()))


def a_column_and_a_partition(place: Place) -> Any:
    found = batches(
        place.partitioned(),
        predicate=_Asking(["id", "part"], lambda frame: (frame.part == "b") & (frame.id > 2)),
    )
    return [[int(id_) for id_ in batch.id] for batch in found]


def parts_of_row_groups(place: Place) -> Any:
    lengths: list[int] = []

    def look(frame: Any) -> Any:
        lengths.append(len(frame))
        return frame.id >= 0

    found = batches(_table(place), predicate=_Asking(["id"], look), shuffle_row_drop_partitions=2)
    return [lengths, [batch.id.tolist() for batch in found]]
