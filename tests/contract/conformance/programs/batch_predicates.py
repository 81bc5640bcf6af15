"""User-defined predicates in the batch reader, which passes them pandas DataFrames."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from petastorm.predicates import PredicateBase
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import batches


class _Asking(PredicateBase):
    """A predicate that calls a function."""

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


def values_that_predicates_receive(place: Place) -> Any:
    seen: list[Any] = []

    def record(frame: Any) -> Any:
        index = frame.index
        seen.append([type(frame), sorted(frame.columns), frame.shape, len(frame)])
        seen.append([type(index), index.start, index.stop, index.step])
        return frame["id"] >= 0

    return [_included(place, ["x", "id"], record), seen]


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

    def record(frame: Any) -> Any:
        for name in columns:
            cells = [None if cell is None else type(cell) for cell in frame[name]]
            seen[name] = [frame[name].dtype.kind, cells]
        return frame["number"] > 0

    batches(place.parquet(columns), predicate=_Asking(list(columns), record))
    return seen


def errors_that_predicates_raise(place: Place) -> Any:
    def fail(frame: Any) -> Any:
        raise RuntimeError("my own")

    return error_of(lambda: _included(place, ["id"], fail), "my own")


def a_column_and_a_partition(place: Place) -> Any:
    found = batches(
        place.partitioned(),
        predicate=_Asking(["id", "part"], lambda frame: (frame.part == "b") & (frame.id > 2)),
    )
    return [[int(id_) for id_ in batch.id] for batch in found]


def parts_of_row_groups(place: Place) -> Any:
    lengths: list[int] = []

    def record(frame: Any) -> Any:
        lengths.append(len(frame))
        return frame.id >= 0

    found = batches(_table(place), predicate=_Asking(["id"], record), shuffle_row_drop_partitions=2)
    return [lengths, [batch.id.tolist() for batch in found]]
