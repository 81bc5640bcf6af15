"""An MDS dataset as a `tf.data.Dataset` of namedtuples.

Rows travel from the generator in large blocks and are cut into batches by TensorFlow, since every
element that a generator yields has a price of its own. Ragged columns, and the last batches of a
rank that is short of rows, are yielded as batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any

import tensorflow as tf

from mdstorm_backend.frameworks.loader_state import LoaderState
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.frameworks.row_types import row_type
from mdstorm_backend.frameworks.tf_tensors import ColumnSpec, check_nulls, spec_of_column, to_tf
from mdstorm_backend.order import ceil_div
from mdstorm_backend.read.batch_reader import check_batch_size

__all__ = ["make_tf_dataset", "stored_specs"]

_BLOCK_ROWS = 1 << 16


def make_tf_dataset(
    make_options: Callable[[], ReaderOptions],
    *,
    batch_size: int,
    prefetch: int | None = None,
    specs: Callable[[ReaderOptions], Sequence[ColumnSpec]] | None = None,
    type_name: str = "Batch",
) -> Any:
    """Make a dataset of batches.

    Parameters
    ----------
    make_options : callable
        Opens the dataset; called when the TensorFlow dataset is built.
    batch_size : int
        Rows of a batch. Batches span epochs; only at the very end they may be shorter.
    prefetch : int, optional
        Batches that TensorFlow keeps ready; by default it decides.
    specs : callable, optional
        Says how the columns arrive; by default as they are stored. Needed with a transform.
    type_name : str
        Name of the namedtuple type.

    Returns
    -------
    tf.data.Dataset
        A ``tf.compat.v1.data.Dataset`` that is also its own context manager, for eager and for
        graph mode.

    Raises
    ------
    InvalidArgumentError
        If `batch_size` is not a positive integer.
    """
    check_batch_size(batch_size)

    def build() -> Any:
        options = make_options()
        columns = list((specs or stored_specs)(options))
        dataset = _batches(options, columns, batch_size, type_name)
        dataset = dataset.prefetch(tf.data.AUTOTUNE if prefetch is None else prefetch)
        if options.order.world_size > 1:
            settings = tf.data.Options()
            settings.experimental_distribute.auto_shard_policy = (
                tf.data.experimental.AutoShardPolicy.OFF
            )
            dataset = dataset.with_options(settings)
        return dataset

    return _context_class()(build)


def stored_specs(options: ReaderOptions) -> list[ColumnSpec]:
    """Return how the columns arrive without a transform; nulls without a value are refused."""
    specs = []
    for name in options.delivered:
        column = options.column(name)
        if column is None:
            specs.append(ColumnSpec(name, "bool"))
            continue
        specs.append(spec_of_column(column))
        check_nulls(column, options.nulls.remaining(column))
    return specs


def _batches(
    options: ReaderOptions, specs: list[ColumnSpec], batch_size: int, type_name: str
) -> Any:
    row = row_type(type_name, tuple(spec.name for spec in specs))
    cut_here = _must_cut_here(options, specs, batch_size)
    block_rows = {} if cut_here else {"block_rows": _BLOCK_ROWS}
    progress = LoaderState()

    def generate() -> Iterator[Any]:
        reader = options.reader(batch_size, **block_rows)
        for block in reader.blocks(progress.begin(), progress.first_epoch):
            progress.position = block.ends[-1]
            for batch in block.batches() if cut_here else [block.batch]:
                yield row(*(to_tf(batch[spec.name], spec) for spec in specs))

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=row(*(spec.signature for spec in specs))
    )
    return dataset if cut_here else dataset.rebatch(batch_size)


def _must_cut_here(options: ReaderOptions, specs: list[ColumnSpec], batch_size: int) -> bool:
    """Whether batches cannot be left to TensorFlow, or gain nothing by it."""
    # Arrays of a free length have one length in a batch, but not in a block.
    if not all(spec.is_fixed for spec in specs) or batch_size >= _BLOCK_ROWS // 2:
        return True
    if options.num_epochs is None or options.transform is not None:
        return False
    reader = options.reader(batch_size)
    own_batches = ceil_div(reader.rows_per_epoch * options.num_epochs, batch_size)
    return own_batches != len(reader)


@lru_cache(maxsize=1)
def _context_class() -> Any:
    """Return the subclass of TensorFlow's own adapter class for ``tf.compat.v1`` datasets."""
    v1 = tf.compat.v1.data.Dataset
    adapter = type(v1.from_tensors(0))

    class ContextDataset(adapter):  # type: ignore[misc, valid-type]
        """A dataset that can stand in a ``with`` statement."""

        def __init__(self, build: Callable[[], Any]) -> None:
            self._build = build
            self._home = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            super().__init__(build())

        def __enter__(self) -> Any:
            here = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            # Legacy code may make the dataset in one graph and enter it in another.
            return self if here is self._home else type(self)(self._build)

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            """Do nothing: the threads of a pass end with its iterator."""

    return ContextDataset
