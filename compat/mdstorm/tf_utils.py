"""Readers as TensorFlow datasets and tensors, mirroring ``petastorm.tf_utils``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mdstorm._petastorm_names import other_names
from mdstorm._readers import check_reader
from mdstorm._row_types import Row, TFDataset
from mdstorm._tensorflow import (
    column_for_tf,
    dataset_of_ngrams,
    dataset_of_rows,
    date_to_nsec_from_epoch,
    refuse_nulls_in_rows,
    specs_of_ngram,
    specs_of_schema,
    value_for_tf,
    warn_of_decimals_in,
)
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema
from mdstorm_backend.base import require

__all__ = [
    "RANDOM_SHUFFLING_QUEUE_SIZE",
    "date_to_nsec_from_epoch",
    "make_namedtuple_tf_ngram",
    "make_petastorm_dataset",
    "tf_tensors",
]

__getattr__ = other_names(__name__)
tf: Any = require("tensorflow")

#: Name of the operation that returns the number of rows in the `tf_tensors` shuffling queue.
RANDOM_SHUFFLING_QUEUE_SIZE = "random_shuffling_queue_size"


def make_petastorm_dataset(reader: Any) -> TFDataset[Row]:
    """Return a reader's items as a TensorFlow dataset.

    With an unused reader from `make_batch_reader` or `make_reader`, each iteration is a complete
    pass with new permutations, so ``repeat``, a second ``for``, and a ``for`` after a ``break``
    work. With other readers, items are read one at a time. An iteration continues where the
    previous one stopped, and resets a reader that has reached its end.

    With an unused reader, the dataset keeps the position, and the reader's `state_dict` raises an
    error. Call the dataset's ``state_dict()`` and ``load_state_dict(state)`` instead. The state
    counts the items consumed by Python code in ``for item in dataset``. If you iterate over a
    derived dataset, such as one from ``batch``, pass the number of items consumed from this
    dataset: ``state_dict(items=…)``.

    Rows are passed to TensorFlow in blocks. ``dataset.batch(n)``, and
    ``dataset.unbatch().batch(n)`` for a reader that yields batches, slice batches from these
    blocks, which is much faster than row by row.

    Parameters
    ----------
    reader : Reader
        The reader, which also sets the number of epochs.

    Returns
    -------
    tf.compat.v1.data.Dataset
        A dataset for both eager and graph mode. Its elements are namedtuples of tensors, either
        rows or batches from one shard each. N-grams are dicts from offset to namedtuple. Types and
        static shapes are those in the reader's schema, except that decimals become text, uint16
        becomes int32, and uint32 becomes int64. Dates and timestamps become int64 since 1970 UTC,
        in nanoseconds in batches, and in days and microseconds in rows, as in Petastorm.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no type for a field; also ValueError.
    NullValueError
        If the reader yields batches and a column contains nulls that TensorFlow cannot represent.

    Notes
    -----
    Errors during an iteration (None in a row, arrays of different lengths in a batch, a stopped
    reader) are raised as ``tf.errors`` with mdstorm's message.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from mdstorm import make_batch_reader
    >>> pq.write_table(pa.table({"id": range(4)}), "/tmp/for-tf.parquet")
    >>> with make_batch_reader("file:///tmp/for-tf.parquet") as reader:
    ...     for batch in make_petastorm_dataset(reader):
    ...         print(batch.id.numpy().tolist())
    [0, 1, 2, 3]
    """
    check_reader(reader)
    make = dataset_of_ngrams if reader.ngram else dataset_of_rows
    return cast("TFDataset[Row]", make(reader))


#: Not rewritten by TensorFlow's AutoGraph: see `accepts`.
make_petastorm_dataset.autograph_info__ = None  # type: ignore[attr-defined]


def tf_tensors(reader: Any, shuffling_queue_capacity: int = 0, min_after_dequeue: int = 0) -> Any:
    """Return tensors for a reader's next item, to be run by ``tf.compat.v1.Session.run``.

    Call it inside ``with tf.Graph().as_default():`` or after
    ``tf.compat.v1.disable_eager_execution()``. Otherwise, as with Petastorm, TensorFlow 2 reads an
    item immediately, and a session finds an empty graph. At the end of the reader, running the
    tensors raises ``tf.errors.OutOfRangeError``.

    Parameters
    ----------
    reader : Reader
        The reader.
    shuffling_queue_capacity : int
        Size of a ``RandomShuffleQueue`` of rows, or 0 for no queue. Its queue runner is added to
        the graph and must be started with ``tf.compat.v1.train.start_queue_runners``.
    min_after_dequeue : int
        Minimum number of rows to keep in the queue.

    Returns
    -------
    namedtuple of tf.Tensor, or dict of int to namedtuple
        A row or a batch, or the rows of an n-gram by offset.

    Raises
    ------
    ArgumentTypeError
        If `reader` is not a reader; also TypeError.
    InvalidArgumentError
        If a queue is requested and the reader yields batches, or if TensorFlow has no type for a
        field; also ValueError.
    """
    check_reader(reader)
    if reader.batched_output and shuffling_queue_capacity > 0:
        raise InvalidArgumentError(
            "shuffling_queue_capacity can not be used with a reader that produces "
            "batched_output: it would shuffle whole batches. Pass shuffle_rows=True to the reader"
        )
    warn_of_decimals_in(reader)
    by_offset = specs_of_ngram(reader) if reader.ngram else {0: specs_of_schema(reader.schema)}
    specs = [spec for offset in sorted(by_offset) for spec in by_offset[offset]]

    def next_values(_: Any) -> list[Any]:
        item = next(reader)
        rows = [item[o] for o in sorted(by_offset)] if reader.ngram else [item]
        values = [value for row in rows for value in row]
        if reader.batched_output:
            return list(map(column_for_tf, map(np.asarray, values), specs))
        refuse_nulls_in_rows(zip((spec.name for spec in specs), values, strict=True))
        return list(map(value_for_tf, values, specs))

    dtypes = [tf.as_dtype(spec.dtype) for spec in specs]
    tensors = tf.numpy_function(next_values, [tf.constant(1)], dtypes)
    if shuffling_queue_capacity > 0:
        tensors = _shuffled(tensors, dtypes, shuffling_queue_capacity, min_after_dequeue)
    for tensor, spec in zip(tensors, specs, strict=True):
        tensor.set_shape((None, *spec.shape) if reader.batched_output else spec.shape)
    if reader.ngram:
        return make_namedtuple_tf_ngram(reader.schema, reader.ngram, *tensors)
    return reader.schema.make_namedtuple_tf(*tensors)


def make_namedtuple_tf_ngram(
    unischema: Unischema, ngram: Any, *args: Any, **kargs: Any
) -> dict[int, Any]:
    """Return values as an n-gram, a dict from offset to namedtuple.

    Parameters
    ----------
    unischema : Unischema
        Schema of the rows.
    ngram : NGram
        The n-gram, which lists the fields at each offset.
    *args
        Values in the order of offsets and fields.
    **kargs
        An alternative to `args`, with a dict from field to value for each offset (as a string).
    """
    result: dict[int, Any] = {}
    values = iter(args)
    for offset in range(min(ngram.fields), max(ngram.fields) + 1):
        schema = ngram.get_schema_at_timestep(unischema, offset)
        given = [value for _, value in zip(schema.fields, values, strict=False)]
        result[offset] = schema.make_namedtuple_tf(*given, **kargs.get(str(offset), {}))
    return result


def _shuffled(
    tensors: list[Any], dtypes: list[Any], capacity: int, min_after_dequeue: int
) -> list[Any]:
    """Return tensors dequeued from a ``RandomShuffleQueue`` that is filled from `tensors`."""
    queue = tf.queue.RandomShuffleQueue(capacity, min_after_dequeue, dtypes)
    queue.size(name=RANDOM_SHUFFLING_QUEUE_SIZE)
    runner = tf.compat.v1.train.QueueRunner(queue, [queue.enqueue(tensors)])
    tf.compat.v1.train.add_queue_runner(runner)
    shuffled = queue.dequeue()
    return list(shuffled) if isinstance(shuffled, (list, tuple)) else [shuffled]
