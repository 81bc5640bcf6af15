"""`make_batch_reader`: the rows, their order, and the batch sizes."""

import contextlib
import inspect
import io
from typing import Any

import numpy as np
from petastorm import make_batch_reader
from petastorm.unischema import UnischemaField
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, batches, ids_of


def signature(place: Place) -> Any:
    """Return Petastorm's arguments in Petastorm's order, without those that mdstorm adds."""
    found = list(inspect.signature(make_batch_reader).parameters.values())
    return {p.name: repr(p.default) for p in found[1:27]}


def row_groups_are_batches(place: Place) -> Any:
    return batches(place.numbers())


def files_of_a_directory_are_sorted_by_name(place: Place) -> Any:
    for start, name in enumerate(["b", "a", "part-10", "part-2"]):
        place.parquet({"id": np.array([start])}, name=f"data/{name}.parquet")
    return ids_of(batches(place.url("data")))


def hidden_files_are_skipped(place: Place) -> Any:
    url = place.numbers(4)
    for name in ("_SUCCESS", ".part-0.parquet.crc", "_temporary"):
        (place.folder / "data" / name).write_bytes(b"no Parquet")
    return ids_of(batches(url))


def columns_keep_their_stored_order_and_names(place: Place) -> Any:
    url = place.parquet({"b": [1], "a": [2], "B": [3], "count": [4], "é": [5]})
    return batches(url)


def endless_epochs_continue(place: Place) -> Any:
    url = place.numbers(5, group=3)
    with make_batch_reader(url, num_epochs=None, **CALM) as reader:
        return ids_of([next(reader) for _ in range(5)])


def field_names_are_patterns(place: Place) -> Any:
    url = place.parquet({"id": [1], "id2": [2], "x": [3]})
    (batch,) = batches(url, schema_fields=["id.*"])
    return sorted(batch._fields)


def field_patterns_that_match_nothing_are_skipped(place: Place) -> Any:
    return batches(place.numbers(2), schema_fields=["x", "no_such.*"])


def no_field_patterns_mean_all(place: Place) -> Any:
    return batches(place.numbers(2), schema_fields=[])


def fields_are_found_by_name(place: Place) -> Any:
    field = UnischemaField("x", np.float64, (), None, True)
    return batches(place.numbers(2), schema_fields=[field])


def leaving_the_context_prints_a_line(place: Place) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        batches(place.numbers(1))
    return printed.getvalue()


def partition_columns_come_first(place: Place) -> Any:
    found = batches(place.partitioned())
    return [[batch._fields, [str(value) for value in batch.part], batch.id] for batch in found]


def partition_columns_of_numbers(place: Place) -> Any:
    found = batches(place.partitioned(values=["7", "11"]))
    return [[int(value) for value in batch.part] for batch in found]


def partition_column_alone(place: Place) -> Any:
    return batches(place.partitioned(), schema_fields=["part"])


def files_of_a_list_have_no_partitions(place: Place) -> Any:
    place.partitioned()
    return batches([place.url("hive/part=b/part-0.parquet")])
