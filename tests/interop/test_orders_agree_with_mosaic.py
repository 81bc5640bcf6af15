"""Ids of the elastic order are those of MosaicML Streaming, for many random settings."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.interop.order_settings import Settings, large_shuffles, settings
from tests.mds_backend.elastic.examples import world_work

from mdstorm_backend.elastic import ElasticOrder, StreamShape, partition, shuffle
from mdstorm_backend.elastic.sampling import samples_per_shard
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.world import World

COUNTS = {
    "partition": 300,
    "shuffle": 300,
    "sampling": 150,
    "replicate": 60,
    "weights": 150,
    "work": 600,
}
#: What MosaicML Streaming raises where mdstorm goes on: at the end of an epoch, with fewer samples
#: than canonical nodes, with a block size that the algorithm ignores.
MENDED = (
    "Resuming further",
    "assigned to a canonical node is 0",
    "are not being used",
    "need at least one array",
)
#: Both repeat samples where there are too few.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(Trying|Attempting) to partition:UserWarning", "ignore:.*are read again:UserWarning"
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """What MosaicML Streaming makes of settings: an array, or an error."""

    settings: Settings
    result: Array | None
    error: str


@pytest.fixture(scope="module")
def answers(
    run_in_mosaic: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Answer]]:
    directory = tmp_path_factory.mktemp("orders")
    asked = [pair for kind, count in COUNTS.items() for pair in settings(kind, count)]
    asked += large_shuffles()
    (directory / "settings.json").write_text(json.dumps(asked))
    errors = run_in_mosaic("orders.py", directory / "settings.json", directory / "results.npz")
    found: dict[str, list[Answer]] = {kind: [] for kind in COUNTS}
    with np.load(directory / "results.npz") as results:
        for i, (kind, arguments) in enumerate(asked):
            error = errors.get(str(i), "")
            result = None if error else results[str(i)]
            found[kind].append(Answer(json.loads(json.dumps(arguments)), result, error))
    return found


def replicated(nodes_ranks: tuple[int, int], replication: int) -> Array:
    nodes, ranks = nodes_ranks
    worlds = [World(i, nodes * ranks, ranks).replicated(replication) for i in range(nodes * ranks)]
    return np.array([(w.rank, w.size, w.local_size, w.num_nodes, w.node) for w in worlds])


def stream_shapes(arguments: Settings) -> list[StreamShape]:
    shapes = []
    for stream in arguments["streams"]:
        given = {name: value for name, value in stream.items() if name != "shard_sizes"}
        shapes.append(StreamShape(tuple(stream["shard_sizes"]), **given))
    return shapes


def weights(arguments: Settings) -> Array:
    found = ElasticOrder(**arguments["order"]).weights(stream_shapes(arguments))
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


OURS: dict[str, Callable[[Settings], Array]] = {
    "partition": lambda arguments: partition(**arguments),
    "shuffle": lambda arguments: shuffle(**arguments),
    "sampling": lambda arguments: samples_per_shard(**arguments),
    "replicate": lambda arguments: replicated(**arguments),
    "weights": weights,
    "work": work,
}


def without_padding_only(work: Array) -> Array:
    """Drop all batches where not one has a sample: mdstorm says that the epoch is over."""
    return work if work.ndim < 5 or (work >= 0).any() else work[:, :, :, :0]


@pytest.mark.parametrize("kind", COUNTS)
def test_results_are_equal(kind: str, answers: dict[str, list[Answer]]) -> None:
    compared = 0
    for answer in answers[kind]:
        if answer.result is not None:
            found = OURS[kind](answer.settings)
            np.testing.assert_array_equal(
                found, without_padding_only(answer.result), err_msg=str(answer.settings)
            )
            compared += 1
    assert compared > COUNTS[kind] / 3


@pytest.mark.parametrize("kind", COUNTS)
def test_what_mosaic_refuses_is_refused_or_mended(
    kind: str, answers: dict[str, list[Answer]]
) -> None:
    for answer in answers[kind]:
        if answer.error:
            try:
                OURS[kind](answer.settings)
            except InvalidArgumentError:
                continue
            assert any(text in answer.error for text in MENDED), answer


def test_every_algorithm_and_method_is_compared(answers: dict[str, list[Answer]]) -> None:
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
