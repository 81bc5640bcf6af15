"""`petastorm.tf_utils`: datasets on both readers, in eager and graph mode."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from petastorm import TransformSpec, make_batch_reader, make_reader
from petastorm.tf_utils import (
    RANDOM_SHUFFLING_QUEUE_SIZE,
    date_to_nsec_from_epoch,
    make_petastorm_dataset,
    tf_tensors,
)
from tests.contract.conformance.describing import error_of, warnings_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM


def _elements(url: str, **arguments: Any) -> Any:
    with make_batch_reader(url, **{**CALM, **arguments}) as reader:
        return list(make_petastorm_dataset(reader))


def row_groups_are_elements(place: Place) -> Any:
    return _elements(place.numbers())


def rows_are_elements(place: Place) -> Any:
    with make_reader(place.dataset("places"), schema_fields=["id"], **CALM) as reader:
        return list(make_petastorm_dataset(reader))


def specs_of_a_batch_reader(place: Place) -> Any:
    url = place.parquet({"id": [1], "v": pa.array([[1.0]]), "flag": [True]})
    with make_batch_reader(url, **CALM) as reader:
        spec = make_petastorm_dataset(reader).element_spec
        return {name: str(getattr(spec, name)) for name in spec._fields}


def specs_of_a_row_reader(place: Place) -> Any:
    fields = ["id", "matrix", "ragged", "grey", "price"]
    with make_reader(place.dataset("codecs"), schema_fields=fields, **CALM) as reader:
        spec = make_petastorm_dataset(reader).element_spec
        return {name: str(getattr(spec, name)) for name in sorted(spec._fields)}


def unknown_cardinality(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        return int(tf.data.experimental.cardinality(make_petastorm_dataset(reader)))


def types_of_numbers(place: Place) -> Any:
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.float32(), pa.float64()]
    columns = {f"c{i}": pa.array([0, 1], type_) for i, type_ in enumerate(types)}
    return _elements(place.parquet({**columns, "flag": pa.array([True, False])}))


def values_of_a_row_reader(place: Place) -> Any:
    fields = ["name", "price", "matrix", "grey", "flag"]
    with make_reader(place.dataset("codecs"), schema_fields=fields, **CALM) as reader:
        row = next(iter(make_petastorm_dataset(reader)))
        return {name: getattr(row, name) for name in sorted(row._fields)}


def texts_are_warned_about(place: Place) -> Any:
    with make_batch_reader(place.parquet({"s": ["a"]}), **CALM) as reader:
        return warnings_of(
            lambda: make_petastorm_dataset(reader),
            "Tensorflow will convert all unicode strings back to bytes type",
        )


def repeating(place: Place) -> Any:
    with make_batch_reader(place.numbers(3), **CALM) as reader:
        return [element.id for element in make_petastorm_dataset(reader).repeat(2)]


def a_transform_gives_shapes(place: Place) -> Any:
    def image(frame: Any) -> Any:
        frame["m"] = [np.full((2, 2), i, np.float32) for i in frame["id"]]
        return frame

    fields = [("m", np.float32, (2, 2), False)]
    spec = TransformSpec(image, edit_fields=fields, removed_fields=["x"])
    with make_batch_reader(place.numbers(2), transform_spec=spec, **CALM) as reader:
        dataset = make_petastorm_dataset(reader)
        return [str(dataset.element_spec.m), list(dataset)]


def declared_types_win(place: Place) -> Any:
    def widen(frame: Any) -> Any:
        frame["x"] = frame["x"].astype(np.float64) + 0.5
        return frame

    spec = TransformSpec(widen, edit_fields=[("x", np.float32, (), False)])
    return _elements(place.numbers(2), transform_spec=spec)


def a_reader_that_was_stopped(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        dataset = make_petastorm_dataset(reader)
    return error_of(lambda: list(dataset), "Trying to read a sample after a reader created by")


def errors_of_a_transform(place: Place) -> Any:
    def fail(frame: Any) -> Any:
        raise LookupError("my own")

    url, spec = place.numbers(), TransformSpec(fail)
    return error_of(lambda: _elements(url, transform_spec=spec), "my own")


def a_graph_and_a_session(place: Place) -> Any:
    with (
        tf.Graph().as_default(),
        make_batch_reader(place.numbers(5, group=3), **CALM) as reader,
        tf.compat.v1.Session() as session,
    ):
        row = make_petastorm_dataset(reader).make_one_shot_iterator().get_next()
        found = [session.run(row) for _ in range(2)]
        return [found, error_of(lambda: session.run(row))]


def tensors_of_rows(place: Place) -> Any:
    with (
        tf.Graph().as_default(),
        make_reader(place.dataset("places"), schema_fields=["id"], **CALM) as reader,
        tf.compat.v1.Session() as session,
    ):
        tensors = tf_tensors(reader)
        found = [session.run(tensors) for _ in range(6)]
        return [tensors.id.shape.as_list(), found, error_of(lambda: session.run(tensors))]


def tensors_of_batches(place: Place) -> Any:
    with (
        tf.Graph().as_default(),
        make_batch_reader(place.numbers(4, group=2), **CALM) as reader,
        tf.compat.v1.Session() as session,
    ):
        tensors = tf_tensors(reader)
        return [session.run(tensors) for _ in range(2)]


def tensors_of_batches_are_not_shuffled(place: Place) -> Any:
    with tf.Graph().as_default(), make_batch_reader(place.numbers(), **CALM) as reader:
        return error_of(
            lambda: tf_tensors(reader, shuffling_queue_capacity=10, min_after_dequeue=5),
            "shuffling_queue_capacity can not be used with a reader that produces batched_output",
        )


def helpers(place: Place) -> Any:
    return [
        RANDOM_SHUFFLING_QUEUE_SIZE,
        int(date_to_nsec_from_epoch(datetime.date(2020, 1, 1))),
        int(date_to_nsec_from_epoch(datetime.date(1969, 12, 31))),
    ]
