"""Run random programs with writers and loaders on MosaicML Streaming or on mdstorm.

    random_streams.py mosaic|mdstorm FOLDER RESULTS_FILE NUMBER…

A number is a program's seed, so both libraries run the same programs, each on the datasets that it
wrote. Ranks run one after another in this process. The written and read data goes into RESULTS_FILE
(JSON).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from random_results import described, play_all

if sys.argv[1] == "mdstorm":
    from mdstorm_backend import install_as_streaming

    install_as_streaming()

from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from streaming.base import dataloader
from streaming.base.world import World

NUMBERS = ["uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64"]
COLUMNS = {
    **{name: getattr(np, name) for name in NUMBERS},
    "int": lambda i: -i,
    "str": lambda i: f"wörd {i}" * (i % 4),
    "bytes": lambda i: bytes(range(i % 20)),
    "str_int": lambda i: 10 ** (i % 18),
    "json": lambda i: {"a": i, "b": [i / 2, f"t{i}"]},
    "ndarray": lambda i: np.arange(6, dtype=np.int32).reshape(2, 3) + i,
    "ndarray:float32": lambda i: np.arange(4, dtype=np.float32) - i,
    "ndarray:int16:2,2": lambda i: np.full((2, 2), i, np.int16),
}
#: `StreamingDataset` arguments, each of which is passed by some programs.
CHOICES = {
    "shuffle": [True, True, True, False],
    "shuffle_algo": ["naive", "py1s", "py2s", "py1e", "py1br"],
    "shuffle_seed": [0, 7, 978088],
    "shuffle_block_size": [5, 30, 1 << 18],
    "num_canonical_nodes": [1, 2, 4],
    "partition_algo": ["relaxed", "orig"],
    "sampling_method": ["balanced", "fixed"],
    "sampling_granularity": [1, 3, 5],
    "batching_method": ["random", "stratified", "per_stream", "device_per_stream"],
    "predownload": [30, 99],
    "epoch_size": [40, 90, "0.2k"],
}
WEIGHTS = {"proportion": [0.2, 1.2, 2.2], "repeat": [0.5, 1.5, 2.5], "choose": [9, 19, 29]}


class Program:
    """A random program, which depends only on its number, in an empty directory."""

    def __init__(self, number: int, folder: Path) -> None:
        self.draw, self.folder = random.Random(number), folder
        choose = self.draw.choice
        self.weight = choose([None, None, *WEIGHTS])
        self.order = {n: choose(some) for n, some in CHOICES.items() if self.draw.random() < 0.4}
        self.order["batch_size"] = self.draw.randint(1, 9)
        if self.weight in ("repeat", "choose"):
            self.order.pop("epoch_size", None)
        self.worlds = [choose([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2)]) for _ in range(2)]
        can_replicate = (1, 1) not in self.worlds and self.draw.random() < 0.4
        self.replication = 2 if can_replicate else None
        self.loader = {"num_workers": choose([0, 0, 2]), "drop_last": self.draw.random() < 0.3}

    def play(self) -> Any:
        """Write datasets, read an epoch and part of the next, and resume with a new world size."""
        written = [self.write(number) for number in range(self.draw.randint(1, 3))]
        first, then = self.worlds
        begun, resumed = self.ranks(first, None), None
        # At the end of an epoch, MosaicML Streaming would resume with an empty epoch.
        if not any(rank.pop("is_over") for rank in begun):
            # With workers, MosaicML Streaming uses the previous number of nodes only in the resumed
            # epoch.
            if then[0] != first[0]:
                self.loader["num_workers"] = 0
            resumed = self.ranks(then, json.dumps(begun[0]["state"]))
        return described({"written": written, "begun": begun, "resumed": resumed})

    def write(self, number: int) -> Any:
        """Write a dataset; return its shards from the index, with digests of uncompressed files."""
        draw = random.Random(f"{self.order} {self.worlds}")  # the same layout for all datasets
        names = draw.sample(list(COLUMNS), draw.randint(1, 4))
        columns = {"number": "int", **{f"x{n}": name for n, name in enumerate(names)}}
        out = self.folder / f"data{number}"
        with MDSWriter(
            out=str(out),
            columns=columns,
            compression=draw.choice([None, None, "zstd:3", "gz", "snappy"]),
            hashes=draw.choice([None, ["sha1"], ["sha256", "xxh64"]]),
            size_limit=draw.choice([1000, "2kb", None]),
        ) as writer:
            for i in range(self.draw.randint(20, 120)):
                sample = {f"x{n}": COLUMNS[name](i) for n, name in enumerate(names)}
                writer.write({"number": 1000 * number + i, **sample})
        shards = json.loads((out / "index.json").read_text("utf-8"))["shards"]
        for shard in shards:
            del shard["zip_data"], shard["hashes"]
            if shard["compression"] is None:
                content = (out / shard["raw_data"]["basename"]).read_bytes()
                shard["raw_data"] = hashlib.sha256(content).hexdigest()
        return shards

    def ranks(self, world: tuple[int, int], state: str | None) -> list[dict[str, Any]]:
        """Return what each rank reads: an epoch, some batches of the next one, and the state."""
        stop, found = self.draw.randint(1, 6), []
        for rank in range(world[0] * world[1]):
            dataset = self.dataset(*world, rank)
            batches = StreamingDataLoader(
                dataset, batch_size=self.order["batch_size"], **self.loader
            )
            if state is not None:
                batches.load_state_dict(json.loads(state))
            first = list(batches)
            if state is not None and not first:
                raise ValueError("MosaicML Streaming yields an empty epoch if no batch remains")
            iterator = iter(batches)
            second = list(islice(iterator, stop))
            after = {k: v for k, v in batches.state_dict().items() if k != "mdstorm"}
            is_over = not list(iterator)  # read to the end, so that threads and workers end
            result = {"passes": [first, second], "state": after, "len": len(batches)}
            found.append({**result, "is_over": is_over})
        return found

    def dataset(self, nodes: int, ranks: int, rank: int) -> Any:
        """Create one rank's dataset; MosaicML Streaming's is made not to wait for other ranks."""
        paths = sorted(self.folder.glob("data*"))
        streams = [{"local": str(path)} for path in paths]
        if self.weight is not None:
            weights = zip(streams, WEIGHTS[self.weight], strict=False)
            streams = [{**stream, self.weight: weight} for stream, weight in weights]
        sources = {"streams": [Stream(**stream) for stream in streams]}
        if sys.argv[1] == "mdstorm":
            variables = {"RANK": rank, "WORLD_SIZE": nodes * ranks, "LOCAL_WORLD_SIZE": ranks}
            os.environ.update({name: str(value) for name, value in variables.items()})
            return StreamingDataset(**sources, **self.order, replication=self.replication)
        dataset = StreamingDataset(**sources, **self.order)
        world = World(nodes, ranks, 1, rank)
        dataloader.World = type("Played", (World,), {"detect": classmethod(lambda cls: world)})
        dataset.replication = self.replication
        shared = world.replicate(self.replication) if self.replication else world
        dataset._parallel_rank_world = shared
        dataset.length = -(-dataset.epoch_size // shared.num_ranks)
        return dataset


if __name__ == "__main__":
    play_all(lambda number, folder: Program(number, folder).play())
