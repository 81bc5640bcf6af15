"""What MosaicML Streaming gave, recorded: these tests need no environment that has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.elastic.examples import world_work

from mdstorm_backend.elastic import ElasticOrder, StreamShape, partition, shuffle
from mdstorm_backend.elastic.sampling import samples_per_shard
from mdstorm_backend.order.world import World

GOLDEN = json.loads((Path(__file__).parent / "golden_orders.json").read_text())
#: Arguments under other names.
RENAMED = {"ncn": "num_canonical_nodes", "seed": "shuffle_seed", "block": "shuffle_block_size"}
ORDER = ("batch_size", "shuffle", "shuffle_algo", "batching_method", "epoch_size", *RENAMED)

Case = dict[str, Any]


@pytest.mark.parametrize("case", GOLDEN["partitions"], ids=lambda case: case["args"]["algo"])
def test_partitions(case: Case) -> None:
    assert partition(**case["args"]).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["shuffles"], ids=lambda case: case["args"]["algo"])
def test_shuffles(case: Case) -> None:
    assert shuffle(**case["args"]).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["sampling"])
def test_samplings(case: Case) -> None:
    arguments = dict(case["args"])
    sizes = arguments.pop("samples_per_shard")
    assert samples_per_shard(sizes, **arguments).tolist() == case["result"]


@pytest.mark.parametrize("case", GOLDEN["work"], ids=lambda case: case["args"]["batching_method"])
def test_work_of_all_nodes_ranks_and_workers(case: Case) -> None:
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
