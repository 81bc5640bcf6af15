"""Compute partitions, shuffles, samplings and epochs with MosaicML Streaming's own functions.

    orders.py SETTINGS.json RESULTS.npz

The settings are a list of pairs of a kind and its arguments. The array ``i`` is the result for
settings number i, unless MosaicML Streaming raises an error. Prints the number and text of each
error.
"""

import json
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from streaming import Stream, StreamingDataset
from streaming.base.batching import generate_work
from streaming.base.partition import get_partitions
from streaming.base.sampling import get_sampling
from streaming.base.shuffle import get_shuffle
from streaming.base.world import World

Settings = dict[str, Any]


def replicate(settings: Settings) -> Any:
    nodes, ranks = settings["nodes_ranks"]
    worlds = [World(nodes, ranks, 1, worker) for worker in range(nodes * ranks)]
    found = [world.replicate(settings["replication"]) for world in worlds]
    return np.array([(w.rank, w.num_ranks, w.ranks_per_node, w.num_nodes, w.node) for w in found])


def weights(settings: Settings) -> Any:
    streams = stand_in(settings).streams
    return np.array([(stream.proportion, stream.repeat, stream.choose) for stream in streams])


def work(settings: Settings) -> Any:
    method, world = settings["order"]["batching_method"], World(*settings["nodes_ranks_workers"], 0)
    place = settings["epoch"], settings["sample_in_epoch"]
    return generate_work(method, stand_in(settings), world, *place)


def stand_in(settings: Settings) -> Any:
    """Make an object with the dataset attributes that the batching methods use."""
    order = settings["order"]
    sizes = [np.array(stream["shard_sizes"], np.int64) for stream in settings["streams"]]
    all_sizes = np.concatenate(sizes)
    per_stream = np.array([len(s) for s in sizes])
    streams = []
    for stream in settings["streams"]:
        given = {k: v for k, v in stream.items() if k != "shard_sizes"}
        streams.append(Stream(local="unused", **given))
    samples_per_stream = np.array([s.sum() for s in sizes])
    epoch_size = Stream.apply_weights(
        streams, samples_per_stream, order["epoch_size"], order["shuffle_seed"]
    )
    dataset = SimpleNamespace(
        **{**order, "epoch_size": epoch_size},
        streams=streams,
        num_streams=len(streams),
        samples_per_shard=all_sizes,
        shards_per_stream=per_stream,
        shard_offset_per_stream=np.cumsum(per_stream) - per_stream,
        sample_offset_per_shard=np.cumsum(all_sizes) - all_sizes,
        epoch_seed_change=order["shuffle"] and order["sampling_method"] == "balanced",
        initial_physical_nodes=settings["initial_physical_nodes"],
    )
    dataset.resample_streams = StreamingDataset.resample_streams.__get__(dataset)
    return dataset


KINDS: dict[str, Callable[[Settings], Any]] = {
    "partition": lambda given: get_partitions(**given),
    "shuffle": lambda given: get_shuffle(
        **{**given, "shard_sizes": np.array(given["shard_sizes"], np.int64)}
    ),
    "sampling": lambda given: get_sampling(np.array(given.pop("sizes"), np.int64), **given),
    "replicate": replicate,
    "weights": weights,
    "work": work,
}


with open(sys.argv[1]) as file:
    asked = json.load(file)
warnings.simplefilter("ignore")
np.seterr(all="ignore")
results, errors = {}, {}
for i, (kind, arguments) in enumerate(asked):
    try:
        results[str(i)] = KINDS[kind](arguments)
    except Exception as error:
        errors[i] = f"{type(error).__name__}: {error}"
np.savez(sys.argv[2], **results)
print(json.dumps(errors))
