"""The stages of a dataset that TensorFlow runs, from blocks that Python reads to counted batches.

Python yields large blocks of rows along with batch sizes, and TensorFlow cuts the blocks into
batches, because every element that Python yields has a fixed cost. Ragged columns are yielded as
batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format.values.batch import num_rows
from mdstorm_backend.loaders.tf import tf_columns
from mdstorm_backend.loaders.tf.tf_columns import ColumnSpec
from mdstorm_backend.loaders.tf.tf_runs import INFINITE, TFRuns
from mdstorm_backend.loaders.tf.tf_traced import NUMBER, Find, traced_dataset

BLOCK_ROWS = 1 << 16


def batches_of(
    runs: TFRuns,
    specs: Sequence[ColumnSpec],
    element: Callable[[Mapping[str, Any]], Any],
    claim: int | None,
    prefetch: int | None,
) -> Any:
    """Return a dataset of the batches that `runs` reads.

    Parameters
    ----------
    runs : TFRuns
        Begins the iterations and reads their batches.
    specs : sequence of ColumnSpec
        The columns of a batch.
    element : callable
        Makes the structure of a batch from its columns by name.
    claim : int or None
        Maximum number of batches in any iteration, or `INFINITE`; None if that is not known.
    prefetch : int or None
        Batches that TensorFlow keeps ready; None if it decides.
    """
    # Python cuts batches if arrays have the same length only within a batch rather than a block, or
    # if batches are so large that blocks have no advantage.
    cut_here = runs.loader.options.batch_size >= BLOCK_ROWS // 2 or any(
        spec.ragged or None in spec.shape for spec in specs
    )
    signature = element({spec.name: spec.signature for spec in specs})
    ahead = tf.data.AUTOTUNE if prefetch is None else prefetch
    kind = cut_here, ahead, claim if claim in (None, 1, INFINITE) else _MANY
    source = _Source(runs, specs, element, cut_here)
    return traced_dataset(source, _built, signature, kind, [claim or 0])


#: Stands for any declared number of batches above 1, which all have the same traced functions.
_MANY = 2


@dataclass(frozen=True, eq=False)
class _Source:
    """The functions that TensorFlow calls: see `batches_of`."""

    runs: TFRuns
    specs: Sequence[ColumnSpec]
    element: Callable[[Mapping[str, Any]], Any]
    cut_here: bool

    def read(self, number: Any) -> Iterator[Any]:
        """Read an iteration, and yield flattened batches, or the batch sizes of each `block`."""
        try:
            yield from self._read_blocks(number)
        except MDStormError as error:
            # TensorFlow puts the traceback into its own error, in front of the message.
            raise error.with_traceback(None) from error.__cause__

    def _read_blocks(self, number: Any) -> Iterator[Any]:
        has_images = self.runs.loader.options.has_images
        block_rows = None if self.cut_here or has_images else BLOCK_ROWS
        for run, blocks in self.runs.segments(number, block_rows):
            for block in blocks:
                whole = ((block.batch, block.sizes),)
                each = ((part, [num_rows(part)]) for part in block.batches())
                for part, sizes in each if self.cut_here else whole:
                    columns = {s.name: tf_columns.to_tf(part[s.name], s) for s in self.specs}
                    made = tuple(tf.nest.flatten(self.element(columns)))
                    run.record_read(sizes)
                    if self.cut_here:
                        yield made
                    else:
                        run.block = made
                        yield np.array(sizes, np.int64)
                    run.record_request()

    def block(self, number: Any) -> Any:
        """Return the columns of the block whose batch sizes `read` has just yielded."""
        return self.runs.block(number)


def _built(
    find: Find, specs: tuple[Any, ...], kind: tuple[bool, int, int | None], source: Any, claim: Any
) -> Any:
    """Return the dataset for a source: see `traced_dataset`."""
    cut_here, ahead, cardinality = kind

    def iteration(number: Any) -> Any:
        read = _batches_read(find, specs, cut_here, source, number).prefetch(ahead)
        return _observed(find, read, source, number)

    numbers = tf.data.Dataset.from_generator(
        lambda source: find(source).runs.iterations(), args=(source,), output_signature=NUMBER
    )
    return with_cardinality(numbers.flat_map(iteration), cardinality, claim)


def _batches_read(
    find: Find, specs: tuple[Any, ...], cut_here: bool, source: Any, number: Any
) -> Any:
    def cut(sizes: Any) -> Any:
        # The function fetches the columns, because each iteration prepares the functions of a
        # generator in a time that grows with the number of tensors that it yields.
        part = tf.numpy_function(
            lambda source, number: find(source).block(number),
            [source, number],
            [spec.dtype for spec in specs],
        )
        for tensor, spec in zip(part, specs, strict=True):
            tensor.set_shape(spec.shape)
        # `rebatch` repeats the sizes endlessly, so `take` ends the batches. Counting the sizes also
        # keeps an empty batch after the last row.
        repeated = tf.data.Dataset.from_tensors(tuple(part)).rebatch(sizes)
        return repeated.take(tf.size(sizes, tf.int64))

    read_here = tf.data.Dataset.from_generator(
        lambda source, number: find(source).read(number),
        args=(source, number),
        output_signature=specs if cut_here else tf.TensorSpec((None,), tf.int64),
    )
    return read_here if cut_here else read_here.flat_map(cut)


def _observed(find: Find, batches: Any, source: Any, number: Any) -> Any:
    """Return a dataset of the same batches that reports requests for them to `TFRuns`."""
    zero = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64))

    def zeros(source: Any, number: Any) -> Any:
        times = tf.numpy_function(request, [source, number], tf.int64)
        return zero.repeat(tf.ensure_shape(times, ()))

    def request(source: Any, number: Any) -> Any:
        return np.int64(find(source).runs.request(number))

    # Each request returns a number of batches to yield before the next request, so that Python is
    # not called for each batch. A zero chooses the next batch of `batches`, the only choice.
    endless = tf.data.Dataset.from_tensors((source, number)).repeat()
    return tf.data.Dataset.choose_from_datasets([batches], endless.flat_map(zeros))


def with_cardinality(dataset: Any, kind: int | None, batches: Any) -> Any:
    """Return a dataset with the same elements that declares its cardinality.

    Unlike with `tf.data.experimental.assert_cardinality`, the dataset may have fewer elements,
    because an iteration that resumes in the middle or is left early ends earlier.

    Parameters
    ----------
    dataset : tf.data.Dataset
        A dataset whose cardinality is not known.
    kind : int or None
        None if the number of elements is not known; 1; `INFINITE`; or any other value for any other
        number.
    batches : tf.Tensor
        Maximum number of elements in any iteration.
    """
    if kind is None:
        return dataset
    if kind == 1:
        # No iteration has fewer than 1 element, so the assertion holds. `take` would not request
        # the end of `dataset`, so an iteration would look like a peek.
        return dataset.apply(tf.data.experimental.assert_cardinality(1))
    # choose_from_datasets is infinite if any of its inputs is infinite. Here it always chooses
    # `dataset`, and stops when `dataset` ends. TensorFlow also starts an iterator over `never`, so
    # `never` is small; its elements only need the types of `dataset`.
    first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    never = tf.data.Dataset.from_tensors(tf.nest.map_structure(_value_of, dataset.element_spec))
    endless = tf.data.Dataset.choose_from_datasets(
        [dataset, never.repeat()], first, stop_on_empty_dataset=True
    )
    return endless if kind == INFINITE else endless.take(batches)


def with_known_shapes(dataset: Any) -> Any:
    """Return a dataset with the same elements, whose shapes TensorFlow knows at run time.

    TensorFlow's kernel forgets tensor ranks in a choice among several datasets, such as the one in
    `with_cardinality`, and then cannot concatenate such datasets. A map states the ranks again; the
    second part of its elements keeps TensorFlow from removing the map.
    """
    numbers = tf.data.Dataset.from_tensors(0).repeat()
    return tf.data.Dataset.zip((dataset, numbers)).map(lambda element, _: element)


def _value_of(spec: Any) -> Any:
    """Return a small value that conforms to a ``TypeSpec``."""
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = _value_of(tf.TensorSpec(spec.shape[spec.ragged_rank :], spec.dtype))
        return tf.RaggedTensor.from_nested_row_splits(inner, [[0, 1]] * spec.ragged_rank)
    return tf.zeros([size or 1 for size in spec.shape] if spec.shape.rank else [], spec.dtype)
