"""How TensorFlow's strategies and Keras read a dataset, as far as it can be detected."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

_WORKERS = ("chief", "worker")


def most_peeked(by_python: bool) -> int:
    """Return how many batches Keras may take, or TensorFlow request, before Keras trains.

    To build a model with PyTorch or JAX, and under a strategy in each `fit`, Keras takes one batch,
    and then begins again. With JAX, it takes two, because it reads one ahead for the GPU.

    Under a strategy, other batches are requested in the meantime. Each of n replicas has two parts
    of a batch ready, and a thread holds one more. These are 2n + 1 parts of at most three batches,
    because a batch has n parts. If the user adds a `map`, TensorFlow calls its function for up to
    16 more batches.
    """
    keras = sys.modules.get("keras")
    is_jax = keras is not None and keras.backend.backend() == "jax"
    return 20 if not by_python and has_strategy() else 2 if is_jax else 1


def has_strategy() -> bool:
    """Whether this process has created a strategy, which may read any dataset.

    TensorFlow has no public function for this: `tf.distribute.has_strategy` is true only in a
    strategy's scope, and datasets are often created and read outside of it. TensorFlow's own
    monitoring records the latest strategy. Without this record, assume that there is a strategy.
    """
    gauge = getattr(distribute_lib, "distribution_strategy_gauge", None)
    return gauge is None or any(gauge.get_cell(api).value() for api in ("V1", "V2"))


def in_cluster() -> bool:
    """Whether a dataset made now may belong to a TensorFlow strategy for several processes.

    Such a strategy has to be created before any dataset, and joins its cluster at that point. From
    then on, the devices of all workers are known. Graph mode has no such strategies.

    TensorFlow has no function that reports how the strategy will use the dataset. The strategy may
    skip batches in each process, so that all processes need the same order; it may split each batch
    into parts, if sharding is off; or, with ``distribute_datasets_from_function``, it may read the
    dataset unchanged.
    """
    if not tf.executing_eagerly():
        return False
    devices = (tf.DeviceSpec.from_string(d.name) for d in tf.config.list_logical_devices())
    return len({(d.job, d.task) for d in devices if d.job in _WORKERS}) > 1


def without_sharding(dataset: Any) -> Any:
    """Return a dataset that ``tf.distribute`` does not shard again."""
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(settings)
