"""Time and memory for computing one rank's elastic order for one epoch.

    python benchmarks/measure_order.py [--samples 100000000] [--shard-size 50000] [CASE…]

Prints one line per case: wall and CPU time, and the peak resident memory of a process that does
nothing else. Each case runs in a separate process, on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

ALGORITHMS = ("py1e", "py1br", "py1s", "py2s", "naive")
WORLDS = {"1 rank": (0, 1, 1), "8 x 8 ranks, the last": (63, 64, 8)}
BATCH_SIZE = 256


def cases() -> dict[str, dict[str, Any]]:
    found = {
        f"{algorithm}, {world}": {"shuffle_algo": algorithm, "world": place}
        for algorithm in ALGORITHMS
        for world, place in WORLDS.items()
    }
    alone = WORLDS["1 rank"]
    found["not shuffled, 1 rank"] = {"shuffle": False, "world": alone}
    found["py1e, one huge block, 1 rank"] = {"shuffle_block_size": 10**9, "world": alone}
    found["py1e, 0.7 of the samples, 1 rank"] = {"part": 0.7, "world": alone}
    for method in ("stratified", "per_stream", "device_per_stream"):
        found[f"py1e, {method} of 4 streams, 1 rank"] = {
            "batching_method": method,
            "streams": 4,
            "world": alone,
        }
    return found


def measure(samples: int, shard_size: int, settings: dict[str, Any]) -> None:
    from mdstorm_backend.elastic import ElasticOrder
    from mdstorm_backend.elastic.batching import rank_work
    from mdstorm_backend.order import StreamShape, World

    world = World(*settings.pop("world"))
    num_streams = settings.pop("streams", 1)
    shards = samples // shard_size // num_streams
    streams = tuple(StreamShape((shard_size,) * shards) for _ in range(num_streams))
    part = settings.pop("part", None)
    size = int(samples * part) if part else None
    settings = {"shuffle": True, "epoch_size": size, **settings}
    order = ElasticOrder(BATCH_SIZE, **settings, world=world, streams=streams)
    start, used = time.perf_counter(), time.process_time()
    work = rank_work(order, epoch=1, num_workers=2)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "ids": work.size}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000_000)
    parser.add_argument("--shard-size", type=int, default=50_000)
    parser.add_argument("--in-process", help=argparse.SUPPRESS)
    parser.add_argument("case", nargs="*", help="part of a case name")
    arguments = parser.parse_args()
    if arguments.in_process:
        measure(arguments.samples, arguments.shard_size, cases()[arguments.in_process])
        return
    sizes = ["--samples", str(arguments.samples), "--shard-size", str(arguments.shard_size)]
    for name in cases():
        if arguments.case and not any(part in name for part in arguments.case):
            continue
        command = [sys.executable, __file__, *sizes, "--in-process", name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        times = f"{found['seconds']:6.1f} s {found['cpu']:6.1f} s CPU"
        print(f"{name:45} {times} {found['peak'] / 1e9:6.2f} GB", flush=True)


if __name__ == "__main__":
    main()
