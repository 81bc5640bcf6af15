"""`make_reader`: rows of datasets that Petastorm wrote, decoded."""

import inspect
from typing import Any

import numpy as np
import pyarrow as pa
from petastorm import make_reader
from petastorm.unischema import UnischemaField
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import rows


def _column(place: Place, name: str) -> Any:
    return [getattr(row, name) for row in rows(place.dataset("codecs"), schema_fields=[name])]


def signature(place: Place) -> Any:
    """Return Petastorm's arguments in Petastorm's order, without those that mdstorm adds."""
    found = list(inspect.signature(make_reader).parameters.values())
    return {p.name: repr(p.default) for p in found[1:28]}


def rows_are_named_tuples(place: Place) -> Any:
    row, *_ = rows(place.dataset("places"))
    return [type(row).__name__, row._fields]


def columns_of_all_codecs(place: Place) -> Any:
    """Scalars with and without nulls, arrays of fixed and variable shape, and images."""
    names = "id small byte half flag name word price maybe matrix ragged zipped hole png grey"
    return {name: _column(place, name) for name in names.split()}


def dates(place: Place) -> Any:
    return [[str(value.dtype), value] for value in _column(place, "day")]


def timestamps(place: Place) -> Any:
    return [[str(value.dtype), str(value)] for value in _column(place, "time")]


def arrays_may_be_written_to(place: Place) -> Any:
    (row, *_) = rows(place.dataset("codecs"), schema_fields=["matrix", "png"])
    row.matrix[0, 0] = 5
    return bool(row.matrix[0, 0] == 5)


def fields_by_their_schema(place: Place) -> Any:
    fields = [
        UnischemaField("price", object, (), None, False),
        UnischemaField("id", np.int64, (), None, False),
    ]
    row, *_ = rows(place.dataset("codecs"), schema_fields=fields)
    return row._fields


def shards_share_the_rows(place: Place) -> Any:
    url = place.dataset("places")
    shards = [rows(url, cur_shard=shard, shard_count=3) for shard in range(3)]
    return [[int(row.id) for row in shard] for shard in shards]


def shuffled_row_groups(place: Place) -> Any:
    found = [int(r.id) for r in rows(place.dataset("places"), shuffle_row_groups=True, seed=3)]
    return sorted([found[0:2], found[2:4], found[4:6]])


def shuffled_rows_stay_in_their_group(place: Place) -> Any:
    found = [int(row.id) for row in rows(place.dataset("codecs"), shuffle_rows=True, seed=3)]
    return [sorted(found[:4]), sorted(found[4:])]


def partitions_of_a_petastorm_dataset(place: Place) -> Any:
    found = rows(place.dataset("cities"))
    return [[row._fields for row in found[:1]], [[int(row.id), row.city] for row in found]]


def partitions_filtered(place: Place) -> Any:
    found = rows(place.dataset("cities"), filters=[("city", "=", "Oslo")])
    return [[int(row.id), str(row.city)] for row in found]


def plain_parquet_with_lists_and_nulls(place: Place) -> Any:
    columns = {
        "i": pa.array([1, None], pa.int32()),
        "s": pa.array(["a", None]),
        "l": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
    }
    return rows(place.parquet(columns))


def a_list_with_a_petastorm_dataset(place: Place) -> Any:
    url = place.dataset("places")
    return error_of(lambda: [int(row.id) for row in rows([url])])


def a_file_of_a_petastorm_dataset_loses_the_schema(place: Place) -> Any:
    row, *_ = rows(place.dataset("places") + "/part-0.snappy.parquet")
    return [row._fields, row.city, isinstance(row.vector, bytes)]
