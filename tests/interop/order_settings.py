"""Random settings of the elastic order, the same in each run."""

import random
from typing import Any

from mdstorm_backend.elastic.elastic_order import BATCHING_METHODS
from mdstorm_backend.elastic.partitions import PARTITION_ALGORITHMS
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS

Settings = dict[str, Any]

_NODES = (1, 1, 2, 3, 4, 6, 8)


def settings(kind: str, count: int, seed: int = 0) -> list[tuple[str, Settings]]:
    """Draw `count` settings of a kind."""
    draw = random.Random(f"{kind} {seed}")
    return [(kind, _KINDS[kind](draw)) for _ in range(count)]


def large_shuffles() -> list[tuple[str, Settings]]:
    """Every algorithm on more samples than are sorted, or looked at, at a time."""
    common = {"seed": 9176, "epoch": 1, "num_canonical_nodes": 1, "block_size": 10_000}
    return [
        ("shuffle", {"algo": algo, "shard_sizes": [7000] * 180, **common})
        for algo in SHUFFLE_ALGORITHMS
    ]


def _partition(draw: random.Random) -> Settings:
    nodes, batch_size = draw.choice(_NODES), draw.choice([1, 2, 3, 4, 6, 12])
    canonical = draw.choice([nodes, nodes * draw.choice([1, 2, 4]), draw.choice(_NODES)])
    num_samples = draw.choice([draw.randrange(1, 40), draw.randrange(1, 2000)])
    return {
        "algo": draw.choice(PARTITION_ALGORITHMS),
        "num_samples": num_samples,
        "num_canonical_nodes": canonical,
        "num_physical_nodes": nodes,
        "ranks_per_node": draw.choice([1, 2, 3, 8]),
        "workers_per_rank": draw.choice([1, 2, 5]),
        "batch_size": batch_size,
        "drop_first": draw.choice([0, draw.randrange(num_samples + 2)]),
        "initial_physical_nodes": draw.choice([None, nodes, draw.choice(_NODES)]),
    }


def _shard_sizes(draw: random.Random) -> list[int]:
    high = draw.choice([3, 20, 200])
    sizes = [
        draw.randrange(0 if draw.random() < 0.2 else 1, high) for _ in range(draw.randrange(1, 12))
    ]
    return [*sizes, draw.randrange(1, high)]


def _shuffle(draw: random.Random) -> Settings:
    return {
        "algo": draw.choice(SHUFFLE_ALGORITHMS),
        "shard_sizes": _shard_sizes(draw),
        "num_canonical_nodes": draw.choice([1, 1, 2, 3, 4, 8]),
        "seed": draw.choice([0, 9176, draw.randrange(1 << 40)]),
        "epoch": draw.randrange(4),
        "block_size": draw.choice([1, 2, 10, 50, 1000, 1 << 18]),
    }


def _sampling(draw: random.Random) -> Settings:
    sizes = _shard_sizes(draw)
    return {
        "sizes": sizes,
        "choose": draw.choice([0, sum(sizes), draw.randrange(3 * sum(sizes))]),
        "granularity": draw.choice([1, 2, 7, 100]),
        "seed": draw.randrange(1 << 40),
        "epoch": draw.randrange(4),
        "use_epoch": draw.random() < 0.5,
    }


def _replicate(draw: random.Random) -> Settings:
    return {
        "nodes_ranks": (draw.choice(_NODES), draw.choice([1, 2, 3, 4, 8])),
        "replication": draw.randrange(0, 9),
    }


def _work(draw: random.Random) -> Settings:
    nodes, ranks = draw.choice([1, 1, 2, 3, 4]), draw.choice([1, 1, 2, 3])
    batch_size = draw.choice([1, 2, 3, 4, 8])
    streams = _streams(draw)
    absolute = any(set(stream) & {"repeat", "choose"} for stream in streams)
    size = sum(sum(stream["shard_sizes"]) for stream in streams)
    epoch_size = None if absolute else draw.choice([None, size, draw.randrange(1, 2 * size + 1)])
    global_batch = nodes * ranks * batch_size
    seen = draw.choice([0, global_batch * draw.randrange(1 + size // global_batch)])
    return {
        "streams": streams,
        "nodes_ranks_workers": (nodes, ranks, draw.choice([1, 2, 3])),
        "epoch": draw.randrange(3),
        "sample_in_epoch": seen,
        "initial_physical_nodes": draw.choice([None, nodes, draw.choice([1, 2, 3, 4])]),
        "order": {
            "batch_size": batch_size,
            "shuffle": draw.random() < 0.7,
            "shuffle_algo": draw.choice(SHUFFLE_ALGORITHMS),
            "shuffle_seed": draw.randrange(1 << 40),
            "shuffle_block_size": draw.choice([10, 50, 1000, 1 << 18]),
            "partition_algo": draw.choice(PARTITION_ALGORITHMS),
            "num_canonical_nodes": nodes * draw.choice([1, 1, 2, 3]) if draw.random() < 0.9 else 2,
            "batching_method": draw.choice(BATCHING_METHODS),
            "sampling_method": draw.choice(["balanced", "fixed"]),
            "sampling_granularity": draw.choice([1, 1, 3, 20]),
            "epoch_size": epoch_size,
        },
    }


def _streams(draw: random.Random) -> list[Settings]:
    streams: list[Settings] = [
        {"shard_sizes": _shard_sizes(draw)} for _ in range(draw.choice([1, 1, 2, 3]))
    ]
    weighting = draw.choice(["none", "none", "relative", "absolute", "absolute"])
    for stream in streams:
        if weighting == "relative":
            stream["proportion"] = draw.choice([1, 2, draw.random() + 0.1])
        elif weighting == "absolute" and draw.random() < 0.7:
            if draw.random() < 0.5:
                stream["repeat"] = draw.choice([0.5, 1, 2.3, draw.random() * 3])
            else:
                stream["choose"] = draw.randrange(1, 300)
    return streams


_KINDS = {
    "partition": _partition,
    "shuffle": _shuffle,
    "sampling": _sampling,
    "replicate": _replicate,
    "weights": _work,
    "work": _work,
}
