"""Declare batches to TensorFlow: their columns, dtypes and shapes, and their number."""

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
    """The name, dtype and shape of one column in TensorFlow.

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
        Number of dimensions of ragged values.
    image : Column or None
        The stored column, if it holds images: images of a batch share a shape, known only when they
        are decoded.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False
    dimensions: int = 1
    image: Column | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether all values of the dataset have one shape."""
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
    """Return the spec of a stored column, which `images` may decode.

    Raises
    ------
    UnsupportedTypeError
        If TensorFlow has no type for the column.
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
    """Return the specs of the outputs of a batch, given those of its columns.

    Raises
    ------
    InvalidArgumentError
        If the columns of a matrix are not numbers of one dtype.
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
    """Whether nulls of a column would become an arbitrary value, as all but those of floats."""
    return not column.is_floating or (column.is_array and column.null_count > 0)


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal names share one type.

    Raises
    ------
    InvalidArgumentError
        If a column name is not a valid field name; the message contains Python's.
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
    """Return the row of some tensors, where `types` is the row of their specs.

    TensorFlow's iterators first try ``_from_compatible_tensor_list`` of their element spec.
    Otherwise they walk through the structure, which takes longer than getting the tensors.

    Raises
    ------
    AttributeError
        If not all elements are plain tensors, so that TensorFlow walks through the structure.
    """
    if any(type(one) is not tf.TensorSpec for one in types):
        raise AttributeError(f"{type(types).__name__} has parts that are made of several tensors")
    return types._make(tensors)


#: The cardinality of a dataset that never ends.
INFINITE = int(tf.data.INFINITE_CARDINALITY)

_KEPT_BY = ("cache", "map", "prefetch", "repeat", "shuffle", "skip", "take", "with_options")


def with_cardinality(dataset: Any, batches: int | None) -> Any:
    """Return a dataset of the same elements that declares its cardinality.

    Unlike with `tf.data.experimental.assert_cardinality` the dataset may have fewer elements: an
    iteration that resumes in the middle ends earlier, and so does one that is left.

    Parameters
    ----------
    dataset : tf.data.Dataset
        A dataset whose cardinality is not known.
    batches : int or None
        The most elements of any iteration, or `INFINITE`; None if that is not known.
    """
    if batches is None:
        return dataset
    # A choice between datasets counts as infinite if one of them is. The first one is chosen every
    # time, and the choice ends with it. TensorFlow begins both.
    first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    never = tf.data.Dataset.from_tensors(tf.nest.map_structure(_value_of, dataset.element_spec))
    endless = tf.data.Dataset.choose_from_datasets(
        [dataset, never.repeat()], first, stop_on_empty_dataset=True
    )
    return endless if batches == INFINITE else endless.take(batches)


def _value_of(spec: Any) -> Any:
    """Return a small value that conforms to a ``TypeSpec``."""
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = _value_of(tf.TensorSpec(spec.shape[spec.ragged_rank :], spec.dtype))
        return tf.RaggedTensor.from_nested_row_splits(inner, [[0, 1]] * spec.ragged_rank)
    return tf.zeros([size or 1 for size in spec.shape] if spec.shape.rank else [], spec.dtype)


@lru_cache(maxsize=1)
def v1_class() -> Any:
    """Return a subclass of TensorFlow's version 1 datasets whose ``map`` keeps the cardinality.

    In version 1, ``map`` drops it, and Keras then reads until the data run out, with a warning.
    """
    adapter = type(tf.compat.v1.data.Dataset.from_tensors(0))

    class V1Dataset(adapter):  # type: ignore[misc, valid-type]
        """A dataset of version 1 that keeps its cardinality as those of version 2 do."""

    def as_in_version_2(method: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return V1Dataset(getattr(tf.data.Dataset, method)(self, *arguments, **keywords))

        return call

    for method in _KEPT_BY:
        setattr(V1Dataset, method, as_in_version_2(method))
    return V1Dataset


_WORKERS = ("chief", "worker")
#: The module that calls the function passed to ``strategy.distribute_datasets_from_function``.
_ASKS_PER_WORKER = "tensorflow.python.distribute.input_lib"


def num_workers() -> int:
    """Return the number of processes among which a TensorFlow strategy splits a dataset made now.

    A strategy for several workers has to be made before any dataset, and joins its cluster then.
    From then on the devices of all workers are known. The number is 1 in graph mode, which has no
    such strategies, and for a dataset that a strategy requests for each worker, and does not split.
    """
    callers = (frame.f_globals.get("__name__") for frame, _ in walk_stack(None))
    if not tf.executing_eagerly() or _ASKS_PER_WORKER in callers:
        return 1
    devices = (tf.DeviceSpec.from_string(d.name) for d in tf.config.list_logical_devices())
    return max(1, len({(d.job, d.task) for d in devices if d.job in _WORKERS}))


def in_cluster() -> bool:
    """Whether a TensorFlow strategy splits a dataset made now among several processes.

    The strategy leaves out batches in each process, so all processes need the same order.
    """
    return num_workers() > 1


def without_sharding(dataset: Any) -> Any:
    """Return a dataset that ``tf.distribute`` does not shard again."""
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(settings)
