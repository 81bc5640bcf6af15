"""Tell TensorFlow how many batches a dataset has, and that it is shared out already."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from traceback import walk_stack
from typing import Any

import tensorflow as tf

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
    # first one that is chosen, and the choice ends with it.
    first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    endless = tf.data.Dataset.choose_from_datasets(
        [dataset, dataset.repeat()], first, stop_on_empty_dataset=True
    )
    return endless if batches == INFINITE else endless.take(batches)


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
