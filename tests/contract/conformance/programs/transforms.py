"""`TransformSpec` in both readers."""

from typing import Any

import numpy as np
import pyarrow as pa
from petastorm import TransformSpec, make_batch_reader, make_reader
from petastorm.transform import edit_field, transform_schema
from petastorm.unischema import Unischema, UnischemaField
from tests.contract.conformance.describing import error_of, warnings_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, batches, ids_of, rows

_SCHEMA = Unischema(
    "Sch",
    [
        UnischemaField("a", np.int64, (), None, False),
        UnischemaField("b", np.float32, (), None, True),
        UnischemaField("c", np.str_, (), None, True),
    ],
)


def _fields(schema: Any) -> Any:
    return [schema._name, [tuple(field) for field in schema.fields.values()]]


def attributes(place: Place) -> Any:
    spec = TransformSpec()
    chosen = TransformSpec(len, [("x", np.float32, (), False)], selected_fields=["x"])
    return [
        [spec.func, spec.edit_fields, spec.removed_fields, spec.selected_fields],
        [chosen.func is len, chosen.edit_fields, chosen.selected_fields],
    ]


def edit_field_is_a_tuple(place: Place) -> Any:
    return [edit_field("x", np.float32, (2,)), edit_field("x", np.int8, (), True)]


def schema_after_an_edit(place: Place) -> Any:
    spec = TransformSpec(edit_fields=[("a", np.float64, (3,), False), ("z", np.int8, (), True)])
    return _fields(transform_schema(_SCHEMA, spec))


def schema_with_unknown_names(place: Place) -> Any:
    removed, selected = TransformSpec(removed_fields=["q"]), TransformSpec(selected_fields=["q"])
    return [
        warnings_of(
            lambda: transform_schema(_SCHEMA, removed), "remove_fields specified some field names"
        ),
        warnings_of(
            lambda: transform_schema(_SCHEMA, selected),
            "selected_fields specified some field names",
        ),
    ]


def a_function_sees_a_frame_per_row_group(place: Place) -> Any:
    seen = []

    def look(frame: Any) -> Any:
        seen.append([sorted(frame.columns), list(frame.index), str(frame["id"].dtype)])
        return frame

    batches(place.numbers(5, group=3), transform_spec=TransformSpec(look))
    return seen


def a_function_sees_arrays_and_texts(place: Place) -> Any:
    seen = []

    def look(frame: Any) -> Any:
        seen.append([type(frame["v"][0]).__name__, frame["v"][0], str(frame["s"].dtype)])
        return frame

    url = place.parquet({"v": pa.array([[1.0, 2.0]]), "s": ["a"]})
    batches(url, transform_spec=TransformSpec(look))
    return seen


def a_column_that_is_removed_by_name(place: Place) -> Any:
    return batches(place.numbers(3), transform_spec=TransformSpec(removed_fields=["x"]))


def a_column_that_the_function_removes(place: Place) -> Any:
    spec = TransformSpec(lambda frame: frame.drop(columns=["x"]), removed_fields=["x"])
    return batches(place.numbers(3), transform_spec=spec)


def columns_that_are_selected(place: Place) -> Any:
    def add(frame: Any) -> Any:
        return frame.assign(y=frame["id"] * 2)[["y", "id"]]

    spec = TransformSpec(add, edit_fields=[("y", np.int64, (), False)], selected_fields=["y", "id"])
    return batches(place.numbers(3), transform_spec=spec)


def a_selection_without_a_function(place: Place) -> Any:
    return error_of(
        lambda: batches(place.numbers(2), transform_spec=TransformSpec(selected_fields=["id"]))
    )


def row_groups_without_rows_are_skipped(place: Place) -> Any:
    spec = TransformSpec(lambda frame: frame[frame["id"] >= 4])
    return ids_of(batches(place.numbers(8, group=2), transform_spec=spec))


def arrays_that_are_lists(place: Place) -> Any:
    def image(frame: Any) -> Any:
        frame["m"] = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] for _ in frame["id"]]
        return frame

    spec = TransformSpec(image, edit_fields=[("m", np.float32, (2, 3), False)])
    url = place.numbers(2)
    return error_of(lambda: batches(url, transform_spec=spec), "field m must be numpy array type")


def edited_fields_without_a_function(place: Place) -> Any:
    url = place.parquet({"v": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32())), "id": [1, 2]})
    spec = TransformSpec(edit_fields=[("v", np.float32, (2,), False)])
    with make_batch_reader(url, transform_spec=spec, **CALM) as reader:
        return [list(reader.schema.fields), reader.schema.fields["v"].shape, list(reader)]


def the_schema_of_a_transformed_reader(place: Place) -> Any:
    spec = TransformSpec(lambda frame: frame, edit_fields=[("x", np.float64, (), False)])
    with make_batch_reader(place.numbers(), transform_spec=spec, **CALM) as reader:
        return [_fields(reader.schema), type(next(reader)).__name__]


def a_function_on_rows(place: Place) -> Any:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        row["twice"] = np.float32(row["id"] * 2)
        row["vector"] = row["vector"][::-1]
        return row

    spec = TransformSpec(
        change, edit_fields=[("twice", np.float32, (), False)], removed_fields=["city", "tag"]
    )
    return rows(place.dataset("places"), transform_spec=spec)


def a_row_function_sees_decoded_values(place: Place) -> Any:
    seen = []

    def look(row: dict[str, Any]) -> dict[str, Any]:
        seen.append({name: row[name] for name in ("id", "maybe", "matrix", "price")})
        return row

    rows(place.dataset("codecs"), transform_spec=TransformSpec(look))
    return seen[:2]


def the_schema_of_transformed_rows(place: Place) -> Any:
    spec = TransformSpec(removed_fields=["vector", "tag"])
    with make_reader(place.dataset("places"), transform_spec=spec, **CALM) as reader:
        return [reader.schema._name, list(reader.schema.fields), type(next(reader)).__name__]
