"""The elastic order yields the same ids as MosaicML Streaming for many random settings."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.mds_backend.elastic.examples import world_work

from mdstorm_backend.elastic import ElasticOrder, partition, shuffle
from mdstorm_backend.elastic.elastic_settings import BATCHING_METHODS
from mdstorm_backend.elastic.partitions import PARTITION_ALGORITHMS
from mdstorm_backend.elastic.sampling import samples_per_shard
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import StreamShape, World

#: Errors that only MosaicML Streaming raises: at the end of an epoch, with fewer samples than
#: canonical nodes, or with a block size that the algorithm ignores.
MENDED = (
    "Resuming further",
    "assigned to a canonical node is 0",
    "are not being used",
    "need at least one array",
)
#: Both libraries repeat samples and warn if there are too few for the nodes, ranks or batches.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(Trying|Attempting) to partition:UserWarning", "ignore:.*are read again:UserWarning"
)

Array = npt.NDArray[Any]
Settings = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """MosaicML Streaming's result for some settings: an array or an error."""

    settings: Settings
    result: Array | None
    error: str


NODES = (1, 1, 2, 3, 4, 6, 8)


def some_partition(draw: random.Random) -> Settings:
    nodes, batch_size = draw.choice(NODES), draw.choice([1, 2, 3, 4, 6, 12])
    canonical = draw.choice([nodes, nodes * draw.choice([1, 2, 4]), draw.choice(NODES)])
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
        "initial_physical_nodes": draw.choice([None, nodes, draw.choice(NODES)]),
    }


def some_shard_sizes(draw: random.Random) -> list[int]:
    high = draw.choice([3, 20, 200])
    sizes = [
        draw.randrange(0 if draw.random() < 0.2 else 1, high) for _ in range(draw.randrange(1, 12))
    ]
    return [*sizes, draw.randrange(1, high)]


def some_shuffle(draw: random.Random) -> Settings:
    return {
        "algo": draw.choice(SHUFFLE_ALGORITHMS),
        "shard_sizes": some_shard_sizes(draw),
        "num_canonical_nodes": draw.choice([1, 1, 2, 3, 4, 8]),
        "seed": draw.choice([0, 9176, draw.randrange(1 << 40)]),
        "epoch": draw.randrange(4),
        "block_size": draw.choice([1, 2, 10, 50, 1000, 1 << 18]),
    }


def some_sampling(draw: random.Random) -> Settings:
    sizes = some_shard_sizes(draw)
    return {
        "sizes": sizes,
        "choose": draw.choice([0, sum(sizes), draw.randrange(3 * sum(sizes))]),
        "granularity": draw.choice([1, 2, 7, 100]),
        "seed": draw.randrange(1 << 40),
        "epoch": draw.randrange(4),
        "use_epoch": draw.random() < 0.5,
    }


def some_replicate(draw: random.Random) -> Settings:
    return {
        "nodes_ranks": (draw.choice(NODES), draw.choice([1, 2, 3, 4, 8])),
        "replication": draw.randrange(0, 9),
    }


def some_work(draw: random.Random) -> Settings:
    nodes, ranks = draw.choice([1, 1, 2, 3, 4]), draw.choice([1, 1, 2, 3])
    batch_size = draw.choice([1, 2, 3, 4, 8])
    streams = some_streams(draw)
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


def some_streams(draw: random.Random) -> list[Settings]:
    streams: list[Settings] = [
        {"shard_sizes": some_shard_sizes(draw)} for _ in range(draw.choice([1, 1, 2, 3]))
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


@pytest.fixture(scope="module")
def answers(
    run_in_mosaic: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Answer]]:
    directory = tmp_path_factory.mktemp("orders")
    asked = []
    for name, kind in KINDS.items():
        draw = random.Random(f"{name} 0")  # the same settings in each run
        asked += [(name, kind.draw(draw)) for _ in range(kind.count)]
    # Run every algorithm with more samples than it processes at a time.
    common = {"seed": 9176, "epoch": 1, "num_canonical_nodes": 1, "block_size": 10_000}
    for algo in SHUFFLE_ALGORITHMS:
        asked.append(("shuffle", {"algo": algo, "shard_sizes": [7000] * 180, **common}))
    (directory / "settings.json").write_text(json.dumps(asked))
    errors = run_in_mosaic("orders.py", directory / "settings.json", directory / "results.npz")
    found: dict[str, list[Answer]] = {kind: [] for kind in KINDS}
    with np.load(directory / "results.npz") as results:
        for i, (name, arguments) in enumerate(asked):
            error = errors.get(str(i), "")
            result = None if error else results[str(i)]
            found[name].append(Answer(json.loads(json.dumps(arguments)), result, error))
    return found


def replicated(nodes_ranks: tuple[int, int], replication: int) -> Array:
    nodes, ranks = nodes_ranks
    worlds = [World(i, nodes * ranks, ranks).replicated(replication) for i in range(nodes * ranks)]
    return np.array(
        [(w.rank, w.size, w.local_size, w.num_nodes, w.rank // w.local_size) for w in worlds]
    )


def stream_shapes(arguments: Settings) -> list[StreamShape]:
    return [
        StreamShape(**{**stream, "shard_sizes": tuple(stream["shard_sizes"])})
        for stream in arguments["streams"]
    ]


def weights(arguments: Settings) -> Array:
    found = ElasticOrder(
        **arguments["order"], streams=tuple(stream_shapes(arguments))
    ).stream_weights
    return np.array([(w.proportion, w.repeat, w.choose) for w in found])


def work(arguments: Settings) -> Array:
    nodes, ranks, workers = arguments["nodes_ranks_workers"]
    return world_work(
        ElasticOrder(**arguments["order"]),
        stream_shapes(arguments),
        World(0, nodes * ranks, ranks),
        arguments["epoch"],
        arguments["sample_in_epoch"],
        arguments["initial_physical_nodes"],
        workers,
    )


@dataclass(frozen=True)
class Kind:
    """A kind of settings: how many to draw, how to draw them, and mdstorm's result for each."""

    count: int
    draw: Callable[[random.Random], Settings]
    ours: Callable[[Settings], Array]


KINDS = {
    "partition": Kind(300, some_partition, lambda arguments: partition(**arguments)),
    "shuffle": Kind(300, some_shuffle, lambda arguments: shuffle(**arguments)),
    "sampling": Kind(150, some_sampling, lambda arguments: samples_per_shard(**arguments)),
    "replicate": Kind(60, some_replicate, lambda arguments: replicated(**arguments)),
    "weights": Kind(150, some_work, weights),
    "work": Kind(600, some_work, work),
}


def without_padding_only(work: Array) -> Array:
    """Remove the batches if all of them are padding, because mdstorm ends the epoch instead."""
    return work if work.ndim < 5 or (work >= 0).any() else work[:, :, :, :0]


@pytest.mark.parametrize("kind", KINDS)
def test_orders_match_mosaicml_streaming(kind: str, answers: dict[str, list[Answer]]) -> None:
    compared = 0
    for answer in answers[kind]:
        if answer.result is not None:
            found = KINDS[kind].ours(answer.settings)
            np.testing.assert_array_equal(
                found, without_padding_only(answer.result), err_msg=str(answer.settings)
            )
            compared += 1
    assert compared > KINDS[kind].count / 3


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_rejected_by_mosaicml_streaming_raise_error_except_in_known_cases(
    kind: str, answers: dict[str, list[Answer]]
) -> None:
    for answer in answers[kind]:
        if answer.error:
            try:
                KINDS[kind].ours(answer.settings)
            except InvalidArgumentError:
                continue
            assert any(text in answer.error for text in MENDED), answer


def test_each_algorithm_and_batching_method_is_compared_at_least_30_times(
    answers: dict[str, list[Answer]],
) -> None:
    def compared(kind: str, choice: Callable[[Settings], str]) -> Counter[str]:
        return Counter(choice(a.settings) for a in answers[kind] if a.result is not None)

    counts = [
        compared("partition", lambda s: s["algo"]),
        compared("shuffle", lambda s: s["algo"]),
        *(
            compared("work", lambda s, name=name: s["order"][name])  # type: ignore[misc]
            for name in ("batching_method", "shuffle_algo", "partition_algo", "sampling_method")
        ),
    ]
    assert [len(count) for count in counts] == [2, 5, 4, 5, 2, 2]
    assert min(min(count.values()) for count in counts) >= 30
