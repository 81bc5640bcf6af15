"""Declare batches to TensorFlow: their columns, dtypes and shapes, and how many there are."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from traceback import walk_stack
from typing import Any

import tensorflow as tf

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.nested_lists import depth_of, element_type
from mdstorm_backend.read.decoded_images import ImageDecoder
from mdstorm_backend.read.matrices import Output, check_alike, output_name


@dataclass(frozen=True)
class ColumnSpec:
    """How one column arrives in TensorFlow.

    Attributes
    ----------
    name : str
        Name of the column.
    dtype : str
        Name of the TensorFlow dtype.
    shape : tuple of int or None
        Shape of one value.
    ragged : bool
        Whether values are arrays of varying length, or lists of them.
    dimensions : int
        Dimensions of ragged values.
    image : Column or None
        The stored column, if it holds images: those of a batch have one shape, which only they say.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False
    dimensions: int = 1
    image: Column | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether values have one shape in the whole dataset."""
        return not self.ragged and None not in self.shape and self.image is None

    @property
    def signature(self) -> Any:
        """The ``TypeSpec`` of a batch of the column."""
        dtype = tf.as_dtype(self.dtype)
        if self.image is not None:
            return tf.TensorSpec(None, dtype)
        if self.ragged:
            rank = self.dimensions
            return tf.RaggedTensorSpec(
                (None,) * (rank + 1), dtype, ragged_rank=rank, row_splits_dtype=tf.int64
            )
        return tf.TensorSpec((None, *self.shape), dtype)


def spec_of_column(column: Column, images: ImageDecoder | None = None) -> ColumnSpec:
    """Return how a stored column arrives, which `images` may decode.

    Raises
    ------
    UnsupportedTypeError
        If TensorFlow has no type for it.
    """
    if images is not None and column.name in images.names:
        return ColumnSpec(column.name, "uint8", images.shape)
    encoding, type_ = column.parsed_encoding, column.arrow_type
    dtype, depth = encoding.tensorflow_dtype(element_type(type_)), depth_of(type_)
    if dtype is None:
        raise _no_counterpart(column)
    if encoding.is_image:
        return ColumnSpec(column.name, dtype, image=column)
    if not depth:
        return ColumnSpec(column.name, dtype)
    if column.value_shape:
        return ColumnSpec(column.name, dtype, column.value_shape)
    if column.origin.lengths == "unknown":
        return ColumnSpec(column.name, dtype, (None,) * depth)
    return ColumnSpec(column.name, dtype, ragged=True, dimensions=depth)


def arranged_specs(specs: Sequence[ColumnSpec], outputs: Sequence[Output]) -> list[ColumnSpec]:
    """Return how what a batch holds arrives, by how its columns do.

    Raises
    ------
    InvalidArgumentError
        If columns of a matrix are not numbers of one dtype.
    """
    by_name = {spec.name: spec for spec in specs}
    arranged: list[ColumnSpec] = []
    for output in outputs or tuple(by_name):
        if isinstance(output, str):
            arranged.append(by_name[output])
            continue
        columns = [by_name[name] for name in output]
        check_alike({c.name: c.dtype if c.signature.shape.rank == 1 else "array" for c in columns})
        arranged.append(ColumnSpec(output_name(output), columns[0].dtype, (len(columns),)))
    return arranged


def _no_counterpart(column: Column) -> UnsupportedTypeError:
    if column.is_array:
        found = "arrays that each have a dtype of their own"
    elif column.spark_type is not None:
        found = f"type {column.arrow_type}"
    else:
        found = f"encoding {column.encoding!r}"
    return UnsupportedTypeError(
        f"column {column.name!r} of {found} has no counterpart in TensorFlow. Leave it out with "
        "schema_fields=[…], or turn it into plain columns before converting",
        columns={column.name: found},
    )


def needs_value(column: Column) -> bool:
    """Whether nulls would become an arbitrary value, as all but those of floats."""
    return not column.is_floating or (column.is_array and column.null_count > 0)


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal columns share one type.

    Raises
    ------
    InvalidArgumentError
        If a column name is no valid field name, in Python's words.
    """
    try:
        base = collections.namedtuple(type_name, names)  # type: ignore[misc]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}: batches are namedtuples here, so column names must be valid names of "
            "fields in Python. Rename them before converting, df.toDF(…), or read others of "
            f"{list(names)} with schema_fields"
        ) from error
    return type(type_name, (base,), {"__slots__": (), "_from_compatible_tensor_list": made_of})


def made_of(types: Any, tensors: Sequence[Any]) -> Any:
    """Return the row of some tensors, where `types` is the row of their types.

    TensorFlow's iterators ask what describes their elements for ``_from_compatible_tensor_list``
    first. Otherwise they walk through the structure, which takes longer than getting the tensors.

    Raises
    ------
    AttributeError
        If not all are plain tensors; then TensorFlow does walk through it.
    """
    if any(type(one) is not tf.TensorSpec for one in types):
        raise AttributeError(f"{type(types).__name__} has parts that are made of several tensors")
    return types._make(tensors)


#: Of a dataset that never ends.
INFINITE = int(tf.data.INFINITE_CARDINALITY)

_KEPT_BY = ("cache", "map", "prefetch", "repeat", "shuffle", "skip", "take", "with_options")


def with_cardinality(dataset: Any, batches: int | None) -> Any:
    """Return a dataset of the same elements that says how many there are.

    Unlike `tf.data.experimental.assert_cardinality` it may have fewer: an iteration that goes on in
    the middle ends earlier, and so does one that is left.

    Parameters
    ----------
    dataset : tf.data.Dataset
        What says that it does not know.
    batches : int or None
        The most elements of any iteration, or `INFINITE`; None if that is not known.
    """
    if batches is None:
        return dataset
    # A choice between datasets is taken for infinite as soon as one of them is. It is always the
    # first one that is chosen, and the choice ends with it. TensorFlow begins both.
    first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    never = tf.data.Dataset.from_tensors(tf.nest.map_structure(_value_of, dataset.element_spec))
    endless = tf.data.Dataset.choose_from_datasets(
        [dataset, never.repeat()], first, stop_on_empty_dataset=True
    )
    return endless if batches == INFINITE else endless.take(batches)


def _value_of(spec: Any) -> Any:
    """Return a small value that is as a ``TypeSpec`` says."""
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = _value_of(tf.TensorSpec(spec.shape[spec.ragged_rank :], spec.dtype))
        return tf.RaggedTensor.from_nested_row_splits(inner, [[0, 1]] * spec.ragged_rank)
    return tf.zeros([size or 1 for size in spec.shape] if spec.shape.rank else [], spec.dtype)


@lru_cache(maxsize=1)
def v1_class() -> Any:
    """Return the class of TensorFlow's datasets for version 1 whose ``map`` keeps the cardinality.

    That of version 1 forgets it, and Keras then reads on until the data run out, with a warning.
    """
    adapter = type(tf.compat.v1.data.Dataset.from_tensors(0))

    class V1Dataset(adapter):  # type: ignore[misc, valid-type]
        """A dataset that knows as much of itself as those of version 2."""

    def as_in_version_2(method: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return V1Dataset(getattr(tf.data.Dataset, method)(self, *arguments, **keywords))

        return call

    for method in _KEPT_BY:
        setattr(V1Dataset, method, as_in_version_2(method))
    return V1Dataset


_WORKERS = ("chief", "worker")
#: What calls the function that a user gives to ``strategy.distribute_datasets_from_function``.
_ASKS_PER_WORKER = "tensorflow.python.distribute.input_lib"


def num_workers() -> int:
    """Return among how many processes a strategy of TensorFlow's splits a dataset made now.

    A strategy for several workers joins its cluster when it is made, which it has to be before any
    dataset is. From then on the devices of all of them are known. Graphs know no such strategy, and
    what a strategy asks for worker by worker it does not split.
    """
    callers = (frame.f_globals.get("__name__") for frame, _ in walk_stack(None))
    if not tf.executing_eagerly() or _ASKS_PER_WORKER in callers:
        return 1
    devices = (tf.DeviceSpec.from_string(d.name) for d in tf.config.list_logical_devices())
    return max(1, len({(d.job, d.task) for d in devices if d.job in _WORKERS}))


def in_cluster() -> bool:
    """Whether a strategy of TensorFlow's splits a dataset made now among several processes.

    It does so by leaving out batches, which takes the same order in all of them.
    """
    return num_workers() > 1


def without_sharding(dataset: Any) -> Any:
    """Return a dataset that ``tf.distribute`` does not shard again."""
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(settings)
