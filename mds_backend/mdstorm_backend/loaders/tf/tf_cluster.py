"""What TensorFlow's distribution strategies do with a dataset."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_WORKERS = ("chief", "worker")


def num_workers() -> int:
    """Return how many processes train together under a strategy of TensorFlow's.

    A strategy for several workers joins its cluster when it is made, which it has to be before any
    dataset is. From then on the devices of all of them are known. Graphs know no such strategy.
    """
    if not tf.executing_eagerly():
        return 1
    devices = (tf.DeviceSpec.from_string(d.name) for d in tf.config.list_logical_devices())
    return max(1, len({(d.job, d.task) for d in devices if d.job in _WORKERS}))


def in_cluster() -> bool:
    """Whether a strategy of TensorFlow's spans several processes, of which this is one.

    It shards a dataset by leaving out batches, which takes the same order in all of them.
    """
    return num_workers() > 1


def without_sharding(dataset: Any) -> Any:
    """Return a dataset that ``tf.distribute`` does not shard again."""
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(settings)
