"""`petastorm.reader.Reader` itself, and the pools of workers that it takes."""

from typing import Any

from petastorm.cache import NullCache
from petastorm.fs_utils import FilesystemResolver
from petastorm.predicates import in_lambda
from petastorm.reader import Reader
from petastorm.transform import TransformSpec
from petastorm.workers_pool.dummy_pool import DummyPool
from petastorm.workers_pool.process_pool import ProcessPool
from petastorm.workers_pool.thread_pool import ThreadPool
from tests.conformance.describing import error_of
from tests.conformance.place import Place


def _open(place: Place, name: str = "places", **arguments: Any) -> Any:
    found = FilesystemResolver(place.dataset(name))
    given = {"reader_pool": DummyPool(), "shuffle_row_groups": False, **arguments}
    return Reader(found.filesystem(), found.get_dataset_path(), **given)


def _read(place: Place, **arguments: Any) -> Any:
    with _open(place, **arguments) as reader:
        return list(reader)


def rows_by_a_path(place: Place) -> Any:
    return _read(place, cache=NullCache())


def rows_of_some_fields_and_epochs(place: Place) -> Any:
    fields = ["id", "t.*"]
    chosen = in_lambda(["id"], lambda number: number % 2 == 1)
    found = _read(place, schema_fields=fields, predicate=chosen, num_epochs=2)
    return [(row.id, row.tag) for row in found]


def changed_rows(place: Place) -> Any:
    spec = TransformSpec(lambda row: {**row, "id": row["id"] * 10}, removed_fields=["vector"])
    return [row.id for row in _read(place, transform_spec=spec)]


def what_it_knows(place: Place) -> Any:
    reader = _open(place)
    try:
        return [reader.num_epochs, reader.batched_output, reader.is_batched_reader, reader.ngram]
    finally:
        reader.stop()
        reader.join()


def sizes_of_pools(place: Place) -> Any:
    return [pool.workers_count for pool in (ThreadPool(3), ProcessPool(2), DummyPool(5))]


def a_path_without_a_dataset(place: Place) -> Any:
    return "OSError" in error_of(lambda: _open(place, "nothing"))["raises"]
