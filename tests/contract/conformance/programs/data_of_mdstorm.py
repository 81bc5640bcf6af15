"""Datasets written by mdstorm's `materialize_dataset` and `build_rowgroup_index`.

Petastorm itself read these datasets when its results were recorded.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlparse

import pyarrow.parquet as pq
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url
from petastorm.selectors import (
    IntersectIndexSelector,
    RowGroupSelectorBase,
    SingleIndexSelector,
    UnionIndexSelector,
)
from petastorm.unischema import Unischema
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import rows


def _schema(place: Place, name: str) -> Unischema:
    return get_schema_from_dataset_url(place.dataset_of_mdstorm(name))


def schemas(place: Place) -> Any:
    found = {}
    for name in ("codecs", "series", "places", "cities"):
        schema = _schema(place, name)
        fields = schema.fields.values()
        # The precision of decimals is left out, because mdstorm's type name does not contain it.
        found[schema._name] = [
            [f.name, f.numpy_dtype, f.shape, str(f.codec).partition("(Decimal")[0], f.nullable]
            for f in fields
        ]
    return found


def rows_of_all_codecs(place: Place) -> Any:
    return rows(place.dataset_of_mdstorm("codecs"))


def rows_of_partitions(place: Place) -> Any:
    return rows(place.dataset_of_mdstorm("cities"))


def _selected(place: Place, selector: RowGroupSelectorBase) -> list[int]:
    url = place.dataset_of_mdstorm("places")
    return [int(row.id) for row in rows(url, rowgroup_selector=selector)]


def _single(name: str, values: Sequence[Any]) -> SingleIndexSelector:
    return SingleIndexSelector(name, values)


def row_groups_by_index(place: Place) -> Any:
    return [
        _selected(place, _single("by_id", [3])),
        _selected(place, _single("by_city", ["Bern", "Oslo"])),
        _selected(place, _single("has_tag", [None])),
        _selected(place, UnionIndexSelector([_single("by_id", [0]), _single("by_id", [5])])),
        _selected(
            place, IntersectIndexSelector([_single("by_id", [2]), _single("by_city", ["Rome"])])
        ),
    ]


def row_groups_of_each_file(place: Place) -> Any:
    found = {}
    for name in ("codecs", "series", "places", "cities"):
        path = urlparse(place.dataset_of_mdstorm(name)).path
        metadata = pq.read_metadata(f"{path}/_common_metadata").metadata
        found[name] = json.loads(metadata[b"dataset-toolkit.num_row_groups_per_file.v1"])
    return found
