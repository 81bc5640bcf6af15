"""Run a MosaicML Streaming `StreamingDataLoader` and print the ids and the state as JSON.

    stream.py RUNS_JSON

The file contains a list of runs: objects with the keys ``dataset`` and ``loader`` (arguments),
``streams`` (a list of arguments, or null), ``world`` (nodes, ranks per node), ``passes``,
``batches`` (in the last pass; null for all) and ``state`` (to load, or null).

Ranks are simulated one after another; only the order depends on the simulated rank.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from streaming import Stream, StreamingDataLoader, StreamingDataset
from streaming.base import dataloader
from streaming.base.world import World


class Played(World):
    """The simulated world; `shape` is the number of nodes, the ranks per node, and this rank."""

    shape = (1, 1, 0)

    @classmethod
    def detect(cls) -> World:
        nodes, ranks, rank = cls.shape
        return World(nodes, ranks, 1, rank)


def play(run: dict[str, Any], rank: int) -> dict[str, Any]:
    arguments = dict(run["dataset"])
    if run["streams"] is not None:
        arguments["streams"] = [Stream(**stream) for stream in run["streams"]]
    replication = arguments.pop("replication", None)
    dataset = StreamingDataset(**arguments)
    dataset.replication = replication
    Played.shape = (*run["world"], rank)
    world = Played.detect()
    dataset._parallel_rank_world = world.replicate(replication) if replication else world
    dataset.length = -(-dataset.epoch_size // dataset._parallel_rank_world.num_ranks)
    loader = StreamingDataLoader(dataset, **run["loader"])
    if run["state"] is not None:
        loader.load_state_dict(run["state"])
    passes = [[b["number"].tolist() for b in loader] for _ in range(run["passes"] - 1)]
    iterator = iter(loader)
    passes.append([batch["number"].tolist() for batch in islice(iterator, run["batches"])])
    state = loader.state_dict()
    if run["batches"] is not None:
        list(iterator)  # so that the loader's threads and workers end
    return {"passes": passes, "state": state, "len": len(loader)}


dataloader.World = Played
results = []
for run in json.loads(Path(sys.argv[1]).read_text()):
    nodes, ranks = run["world"]
    results.append([play(run, rank) for rank in range(nodes * ranks)])
print(json.dumps(results))
