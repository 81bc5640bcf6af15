"""The elastic order in all worlds, compared with recorded MosaicML Streaming results."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.mds_backend.elastic.examples import patient, world_work

from mdstorm_backend.elastic import ElasticOrder, partition, shuffle
from mdstorm_backend.elastic.batching import rank_work, stored_order
from mdstorm_backend.elastic.elastic_settings import BATCHING_METHODS
from mdstorm_backend.elastic.sampling import samples_per_shard
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, MDStormError
from mdstorm_backend.order import StreamShape, World

pytestmark = pytest.mark.filterwarnings(
    "ignore:(Trying|Attempting) to partition:UserWarning", "ignore:.*read again:UserWarning"
)

#: Results recorded with MosaicML Streaming, so that the tests do not need it installed.
GOLDEN = json.loads((Path(__file__).parent / "golden_orders.json").read_text())
#: Arguments that have different names in MosaicML Streaming.
RENAMED = {"ncn": "num_canonical_nodes", "seed": "shuffle_seed", "block": "shuffle_block_size"}
ORDER = ("batch_size", "shuffle", "shuffle_algo", "batching_method", "epoch_size", *RENAMED)


@pytest.mark.parametrize("case", GOLDEN["partitions"], ids=lambda case: case["args"]["algo"])
def test_ids_are_partitioned_as_in_mosaicml_streaming(case: dict[str, Any]) -> None:
    assert partition(**case["args"]).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["shuffles"], ids=lambda case: case["args"]["algo"])
def test_ids_are_shuffled_as_in_mosaicml_streaming(case: dict[str, Any]) -> None:
    assert shuffle(**case["args"]).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["sampling"])
def test_shards_are_sampled_as_in_mosaicml_streaming(case: dict[str, Any]) -> None:
    arguments = dict(case["args"])
    sizes = arguments.pop("samples_per_shard")
    assert samples_per_shard(sizes, **arguments).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["work"], ids=lambda case: case["args"]["batching_method"])
def test_each_worker_reads_the_same_samples_as_in_mosaicml_streaming(case: dict[str, Any]) -> None:
    arguments = case["args"]
    order = ElasticOrder(**{RENAMED.get(n, n): arguments[n] for n in ORDER if n in arguments})
    streams = [
        StreamShape(tuple(sizes), **({name: value} if name else {}))
        for sizes, (name, value) in zip(
            arguments["shard_sizes_per_stream"], arguments["weights"], strict=True
        )
    ]
    nodes, ranks, workers = arguments["nodes_ranks_workers"]
    place = arguments.get("epoch", 0), arguments.get("sample_in_epoch", 0)
    world = World(0, nodes * ranks, ranks)
    found = world_work(order, streams, world, *place, num_workers=workers)
    assert found.tolist() == case["result"]


@pytest.mark.parametrize("samples", [29, 30, 31, 3])
@pytest.mark.parametrize("algo", SHUFFLE_ALGORITHMS)
def test_ranks_read_the_shuffled_samples_of_canonical_nodes_of_unequal_sizes(
    algo: str, samples: int
) -> None:
    """Each rank computes only its own canonical nodes; the rule is that of all of them."""
    sizes, canonical = (samples - 2, 2), 4
    order = ElasticOrder(3, True, algo, 5, 8, num_canonical_nodes=canonical)
    work = world_work(order, [StreamShape(sizes)], World(0, 4, 2), 1)
    entries = partition("relaxed", samples, canonical, 2, 2, 1, 3)
    ids = shuffle(algo, sizes, canonical, 5, 1, 8)
    assert np.array_equal(work, np.where(entries < 0, -1, ids[entries]))


counts = st.integers(1, 4)
shards = st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any)
orders = st.builds(
    ElasticOrder,
    batch_size=st.sampled_from([1, 2, 3, 8]),
    shuffle=st.booleans(),
    shuffle_algo=st.sampled_from(SHUFFLE_ALGORITHMS),
    shuffle_seed=st.integers(0, 1 << 60),
    shuffle_block_size=st.sampled_from([20, 300]),
    partition_algo=st.sampled_from(["orig", "relaxed"]),
    batching_method=st.sampled_from(BATCHING_METHODS),
    sampling_method=st.sampled_from(["balanced", "fixed"]),
    sampling_granularity=st.integers(1, 5),
    epoch_size=st.sampled_from([None, 100, "0.2k"]),
)
STREAMS = (StreamShape((40, 30, 20)), StreamShape((60, 50)))


def some_work(*arguments: Any, order: ElasticOrder, **named: Any) -> Any:
    """Return the samples that all ranks read, discarding examples with invalid arguments."""
    try:
        return world_work(order, *arguments, **named)
    except InvalidArgumentError as error:
        expected = "too (few|small)|no sample in|cannot be shared|needs a num|Resum"
        if not re.search(expected, str(error)):
            raise
        return assume(False)


def global_batches(work: Any) -> list[Counter[int]]:
    nodes, ranks, _, _, batch_size = work.shape
    in_turn = work.transpose(3, 2, 0, 1, 4).reshape(-1, nodes * ranks * batch_size)
    found = [Counter(batch[batch >= 0].tolist()) for batch in in_turn]
    return [batch for batch in found if batch]  # without batches that only pad a worker's share


@patient
@given(orders, st.lists(shards, min_size=1, max_size=3), counts, counts, counts, st.data())
def test_all_ranks_get_equally_shaped_parts(
    order: ElasticOrder,
    sizes: list[list[int]],
    nodes: int,
    ranks: int,
    workers: int,
    data: st.DataObject,
) -> None:
    order = replace(order, num_canonical_nodes=data.draw(st.sampled_from([None, 1, 4, 12])))
    place = data.draw(st.tuples(counts, st.sampled_from([0, 24]), st.sampled_from([None, 2, 4])))
    streams = [StreamShape(tuple(of_stream)) for of_stream in sizes]
    world = World(0, nodes * ranks, ranks)
    work = some_work(streams, world, *place, order=order, num_workers=workers)
    assert work.dtype == np.int64
    assert work.shape[:3] == (nodes, ranks, workers)
    assert work.shape[4] == order.batch_size
    assert work.min(initial=0) >= -1
    assert work.max(initial=-1) < sum(stream.num_samples for stream in streams)


@pytest.mark.parametrize("method", ["random", "stratified", "per_stream"])
@patient
@given(orders, st.integers(0, 5), counts)
def test_any_world_resumes_with_the_same_global_batches(
    method: str, order: ElasticOrder, seen: int, workers: int
) -> None:
    """Requires the same number of canonical nodes and the same global batch size."""
    kept = {"num_canonical_nodes": 4, "batch_size": 2, "epoch_size": None}
    order = replace(order, batching_method=method, **kept)
    streams = [StreamShape((32, 64)), StreamShape((60, 50, 2))]
    before = global_batches(some_work(streams, World(0, 8, 2), 0, order=order))
    for nodes, ranks in ((2, 2), (1, 1), (4, 4)):
        resized = replace(order, batch_size=16 // nodes // ranks)
        world = World(0, nodes * ranks, ranks)
        rest = some_work(streams, world, 0, seen * 16, 4, workers, order=resized)
        assert global_batches(rest) == before[seen:]


@patient
@given(orders, counts, counts)
def test_completed_epoch_leaves_no_batches_on_any_rank(
    order: ElasticOrder, nodes: int, ranks: int
) -> None:
    """MosaicML Streaming raises an error for such a state, or yields batches of only padding."""
    world = World(0, nodes * ranks, ranks)
    work = some_work(STREAMS, world, 0, order=order)
    seen = int((work[0, 0] >= 0).sum()) * world.size  # as counted by a loader on the first rank
    for rank in range(world.size):
        at = replace(order, streams=STREAMS, world=World(rank, world.size, ranks))
        assert rank_work(at, 0, seen, nodes, 2).shape == (2, 0, order.batch_size)


@pytest.mark.parametrize("seen", [0, 1, 24, 200, 201])
@pytest.mark.parametrize("method", ["random", "per_stream"])
def test_stored_order_is_a_range_of_the_same_samples_or_none(method: str, seen: int) -> None:
    worlds, canonical, sizes = [World(), World(1, 2, 2)], [None, 1, 4], [None, 100, 200]
    for shuffle_, world, nodes, size, workers in product(
        [False, True], worlds, canonical, sizes, [1, 3]
    ):
        order = ElasticOrder(3, shuffle_, batching_method=method, epoch_size=size)
        order = replace(order, num_canonical_nodes=nodes, world=world, streams=STREAMS)
        if seen > (size or 200) + 3 * world.size:
            continue
        found = stored_order(order, 1, seen, None, workers)
        is_stored = (shuffle_, method, world.size, workers) == (False, "random", 1, 1)
        assert (found is not None) == (is_stored and nodes != 4 and size != 100)
        if found is not None:
            work = rank_work(order, 1, seen, None, workers)
            assert work[work >= 0].tolist() == list(found)


def test_replicated_ranks_read_the_same_samples() -> None:
    order = ElasticOrder(2, replication=2, streams=STREAMS)
    works = [rank_work(replace(order, world=World(r, 4, 4)), 0).tolist() for r in range(4)]
    assert works[0] == works[1] != works[2] == works[3]
    alone = rank_work(replace(order, replication=None, world=World(0, 2, 2)), 0)
    assert works[0] == alone.tolist()


@pytest.mark.parametrize(
    ("algo", "nodes", "canonical", "block"),
    [("py1e", 2, 2, 2_000_000), ("py1s", 2, 128, 1 << 18), ("py2s", 1, 64, 1 << 18)],
)
def test_canonical_nodes_and_block_size_defaults_depend_on_nodes_and_algorithm(
    algo: str, nodes: int, canonical: int, block: int
) -> None:
    order = ElasticOrder(1, shuffle_algo=algo).resolved(nodes)
    assert (order.num_canonical_nodes, order.shuffle_block_size) == (canonical, block)
    assert order.resolved(99) == order
    given = ElasticOrder(1, num_canonical_nodes=3, shuffle_block_size=7).resolved(nodes)
    assert (given.num_canonical_nodes, given.shuffle_block_size) == (3, 7)


LEAST = {
    "batch_size": 1,
    "shuffle_seed": 0,
    "shuffle_block_size": 1,
    "num_canonical_nodes": 1,
    "sampling_granularity": 1,
    "replication": 1,
    "epoch_size": 0,
}
CHOICES = ["shuffle_algo", "partition_algo", "batching_method", "sampling_method"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        *(
            ({name: least - 1}, InvalidArgumentError, f"{name} must be at least {least}, found")
            for name, least in LEAST.items()
        ),
        *(({name: "x"}, InvalidArgumentError, f"Unknown {name}: 'x'") for name in CHOICES),
        ({"batch_size": None}, ArgumentTypeError, "batch_size must be an integer, found None"),
        ({"batch_size": 2.0}, ArgumentTypeError, r"batch_size must be an integer, found 2\.0"),
        ({"shuffle_seed": None}, ArgumentTypeError, "shuffle_seed must be an integer"),
        ({"replication": True}, ArgumentTypeError, "replication must be an integer, found True"),
        (
            {"shuffle": True, "shuffle_algo": "py1br", "shuffle_block_size": 1},
            InvalidArgumentError,
            "a shuffle block of 1 samples is too small for py1br",
        ),
    ],
)
def test_invalid_arguments_raise_error_in_the_constructor(
    arguments: dict[str, Any], error: type[MDStormError], message: str
) -> None:
    with pytest.raises(error, match=message):
        ElasticOrder(**{"batch_size": 4, **arguments})


@pytest.mark.parametrize(
    ("method", "batch_size", "nodes", "shuffles", "message"),
    [
        ("device_per_stream", 2, 4, False, "the 4 physical nodes, found num_canonical_nodes=2"),
        ("per_stream", 120, 1, False, "stream 0 has too few samples for one global batch of 120 s"),
        ("stratified", 1, 1, False, "stream 0 has no sample in a global batch of 1: its proport"),
        ("per_stream", 1, 1, True, "a shuffle block of 0 samples is too small for py1br"),
    ],
)
def test_streams_and_worlds_unsupported_by_batching_method_raise_error(
    method: str, batch_size: int, nodes: int, shuffles: bool, message: str
) -> None:
    here = {"streams": STREAMS, "world": World(0, nodes)}
    order = ElasticOrder(batch_size, shuffles, "py1br", 0, 2, "orig", 2, method, **here)
    with pytest.raises(InvalidArgumentError, match=message):
        rank_work(order, 0)


@pytest.mark.parametrize(
    "arguments",
    [{"epoch": -1}, {"sample_in_epoch": -1}, {"initial_physical_nodes": 0}, {"num_workers": 0}],
    ids=str,
)
def test_invalid_position_or_node_or_worker_count_raises_error(arguments: dict[str, int]) -> None:
    (name,) = arguments
    with pytest.raises(InvalidArgumentError, match=f"{name} must be at least"):
        rank_work(ElasticOrder(2, streams=STREAMS), **{"epoch": 0, **arguments})


def test_resuming_within_a_per_stream_batch_warns_about_repeated_samples() -> None:
    order = ElasticOrder(5, batching_method="per_stream", streams=STREAMS)
    with pytest.warns(UserWarning, match="the last 2 samples are read again"):
        rest = rank_work(order, 0, sample_in_epoch=7)
    assert np.array_equal(rest, rank_work(order, 0, sample_in_epoch=5))
