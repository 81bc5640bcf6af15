"""Measure how the costs of orders, states, indexes and first requests grow with a job's size.

    python benchmarks/measure_growth.py [order] [state] [index] [requests]

Prints a table for each, which takes some minutes. Nothing is modelled: each case runs the engine's
own code as one of many ranks, in a separate process. Memory is the growth of that process. Orders
that are too large for this machine are extrapolated, and marked with ≈.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend import (
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
)
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.format.index import FileInfo, Index
from mdstorm_backend.order import StreamShape, World

RANKS_PER_HOST = 8
BATCH_SIZE = 256
WINDOW = 100_000
COLUMNS = 10
#: Numbers of ranks, rows and shards in each case.
SIZES = [
    (8, 10**6, 10**2),
    (8, 10**9, 10**4),
    (64, 10**8, 10**4),
    (512, 10**9, 10**4),
    (4096, 10**9, 10**4),
    (4096, 10**10, 10**6),
]
SHARDS = [10**2, 10**4, 10**5, 10**6]
#: An order is measured only if its estimated time is below this limit. The estimate consists of a
#: time for each row on the rank's node and a time for each random number. All are in seconds.
_LIMIT, _PER_SAMPLE, _PER_DRAW = 60, 250e-9, 15e-9
#: GET requests per second that S3 serves for one prefix.
_REQUESTS_OF_S3 = 5500


def exact(ranks: int, rows: int, shards: int) -> None:
    """Compute the last rank's share in the exact order, and the rows in its first window."""
    order = ExactOrder(seed=1, shuffle_shards=True, window=WINDOW, rank=ranks - 1, world_size=ranks)
    bounds = np.linspace(0, rows, shards + 1, dtype=np.int64)
    share = order.rows(rows, first_position=rows)
    next(order.chunks(bounds, share, 1, ranks - 1, range(len(share))))


def elastic(ranks: int, rows: int, shards: int, *, shuffle: bool = True) -> None:
    """Compute the last rank's elastic order, which requires the random numbers of all nodes."""
    world = World(ranks - 1, ranks, RANKS_PER_HOST)
    streams = (StreamShape((rows // shards,) * shards),)
    order = ElasticOrder(BATCH_SIZE, shuffle=shuffle, world=world, streams=streams)
    rank_work(order, epoch=1)


def fits(case: str, ranks: int, rows: int, shards: int) -> bool:
    """Whether this machine can compute an order within the time limit."""
    share = rows / max(ranks // RANKS_PER_HOST, 1)
    seconds = share * _PER_SAMPLE + rows * _PER_DRAW if case == "elastic" else 0.0
    return seconds < _LIMIT


def index_of(rows: int, shards: int, folder: str) -> bytes:
    """Return the index that a writer would write for a dataset with this many shards."""
    with MDSWriter(out=folder) as writer:
        writer.write_batch(pa.table({f"column_{i:02}": [0.5] for i in range(COLUMNS)}))
    index = Index.from_bytes(Path(folder, "index.json").read_bytes(), url=folder)
    (shard,), samples = index.shards, rows // shards
    files = (
        FileInfo(f"part-{i // 64:05}-0.{i % 64:05}.mds", 1000 + 84 * samples, {})
        for i in range(shards)
    )
    return replace(
        index, shards=tuple(replace(shard, samples=samples, raw_data=file) for file in files)
    ).to_bytes()


def index(ranks: int, rows: int, shards: int) -> dict[str, float]:
    """Measure parsing an index, which every process of a training job does."""
    path = Path(tempfile.gettempdir(), f"mdstorm-growth-{shards}.json")
    if not path.exists():  # in a separate process, so that its memory is not counted here
        subprocess.run([sys.executable, __file__, "write", str(path), str(shards)], check=True)
    content = path.read_bytes()
    figures = measured(lambda: Index.from_bytes(content, url=""))
    packed = gzip.compress(content[: 4 << 20], 1)
    ratio = len(packed) / min(len(content), 4 << 20)
    return {**figures, "bytes": len(content), "packed": len(content) * ratio}


def state(ranks: int, rows: int, shards: int) -> dict[str, Any]:
    """Measure saving and loading mid-epoch states; in the exact order, also with fewer ranks."""
    with tempfile.TemporaryDirectory() as folder:
        content = index_of(rows, shards, folder)
        Path(folder, "index.json").write_bytes(content)
        batches = rows // ranks // BATCH_SIZE // 4
        found: dict[str, Any] = {}

        def loader(size: int, **order: Any) -> StreamingDataLoader:
            os.environ.update(place(size - 1, size))
            data = StreamingDataset(local=folder, batch_size=BATCH_SIZE, **order)
            return StreamingDataLoader(data, batch_size=BATCH_SIZE)

        def moved(taken: dict[str, Any], size: int) -> dict[str, Any]:
            """Return the state as if all ranks had loaded it and read more batches."""
            ours = taken["mdstorm"]
            if [lanes[1] for lanes in ours["lanes"]][-1:] != [size]:
                ours["lanes"].append([taken["sample_in_epoch"], size, 0])
            ours["world_size"], taken["epoch"] = size, 0
            taken["sample_in_epoch"] += batches * BATCH_SIZE * size
            return taken

        exact_order = {"order": ExactOrder(seed=1, window=WINDOW)}
        first = loader(ranks, **exact_order)
        start = first.state_dict()
        found["take"] = measured(first.state_dict)
        before = moved(start, ranks)
        found["load"] = measured(lambda: loader(ranks, **exact_order).load_state_dict(before))
        half = loader(ranks // 2, **exact_order)
        found["other"] = measured(lambda: half.load_state_dict(before))
        after = moved(half.state_dict(), ranks // 2)
        third = loader(ranks // 4 or 1, **exact_order)
        found["third"] = measured(lambda: third.load_state_dict(after))
        found["bytes"] = len(json.dumps(third.state_dict()))
        mosaic = loader(ranks, shuffle=True)
        taken = {**mosaic.state_dict(), "epoch": 0, "sample_in_epoch": batches * BATCH_SIZE * ranks}
        found["elastic"] = measured(lambda: (mosaic.load_state_dict(taken), mosaic.state_dict()))
        return found


def requests(ranks: int, rows: int, shards: int) -> dict[str, Any]:
    """Count the store requests from one host's processes until each has its first batch."""
    import measure_store

    folder = measure_store.FOLDER / "bucket" / "growth"
    with MDSWriter(out=str(folder), size_limit=8 * rows // shards, exist_ok=True) as writer:
        writer.write_batch(pa.table({"n": np.arange(rows)}))
    measure_store.STRETCH = 1
    store = measure_store.Store()
    with tempfile.TemporaryDirectory() as local:
        program = [sys.executable, __file__, "rank", store.url, local]
        started = [
            subprocess.Popen(program, env={**os.environ, **place(rank, ranks)})
            for rank in range(RANKS_PER_HOST)
        ]
        for process in started:
            process.wait()
    asked = [what.split("/")[-1].split(" ")[0].split("?")[0] for _, _, what, _ in store.requests()]
    store.close()
    of_index = sum(name == "index.json" for name in asked)
    of_shards = [name for name in asked if name.endswith(".mds")]
    return {
        "index": of_index,
        "shards": len(of_shards),
        "different": len(set(of_shards)),
        "others": len(asked) - of_index - len(of_shards),
    }


def place(rank: int, ranks: int) -> dict[str, str]:
    """Return the environment variables that a launcher sets."""
    sizes = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": min(RANKS_PER_HOST, ranks)}
    return {"AWS_EC2_METADATA_DISABLED": "true", **{name: str(n) for name, n in sizes.items()}}


def read_first_batch(endpoint: str, local: str) -> None:
    options = {"endpoint_url": endpoint, "key": "k", "secret": "s"}
    data = StreamingDataset(
        remote="s3://bucket/growth",
        local=local,
        storage_options=options,
        batch_size=BATCH_SIZE,
        predownload=BATCH_SIZE,
        shuffle=True,
    )
    next(iter(StreamingDataLoader(data, batch_size=BATCH_SIZE)))


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Return the CPU seconds that a call takes, and the number of bytes it adds to peak memory."""
    before, start = peak(), time.process_time()
    work()
    return {"seconds": time.process_time() - start, "bytes_more": peak() - before}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


ORDERS: dict[str, Callable[[int, int, int], None]] = {
    "exact": exact,
    "in order": lambda *sizes: elastic(*sizes, shuffle=False),
    "elastic": elastic,
}
OTHERS = {"state": state, "index": index, "requests": requests}


def run(case: str, ranks: int, rows: int, shards: int) -> dict[str, Any]:
    """Run a case in a separate process."""
    command = [sys.executable, __file__, "case", case, str(ranks), str(rows), str(shards)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cell(found: dict[str, float], sign: str = "") -> str:
    seconds, size = found["seconds"], found["bytes_more"]
    return f"{sign}{seconds:.2f} s, {sign}{size / 1e6:.0f} MB"


def order_cell(case: str, ranks: int, rows: int, shards: int) -> str:
    """Measure an order, or extrapolate linearly from a tenth and a hundredth of its rows."""
    if fits(case, ranks, rows, shards):
        return cell(run(case, ranks, rows, shards))
    tenth, hundredth = (run(case, ranks, rows // part, shards // part) for part in (10, 100))
    slopes = {name: 10 * (tenth[name] - hundredth[name]) for name in tenth}
    return cell({name: tenth[name] + slope for name, slope in slopes.items()}, "≈ ")


def print_orders() -> None:
    print("| ranks | rows | shards | exact, window | elastic, in order | elastic, py1e |")
    print("|--:|--:|--:|--:|--:|--:|")
    for size in SIZES:
        cells = [order_cell(case, *size) for case in ORDERS]
        print(f"| {' | '.join([*(f'{number:,}' for number in size), *cells])} |", flush=True)


def print_states() -> None:
    print("| ranks | take | load | on half the ranks | then on a quarter | elastic | JSON |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in (8, 64, 512, 4096):
        found = run("state", ranks, 10**9, 10**4)
        cells = [cell(found[name]) for name in ("take", "load", "other", "third", "elastic")]
        print(f"| {ranks:,} | {' | '.join(cells)} | {found['bytes']:,} bytes |", flush=True)


def print_indexes() -> None:
    hosts = 4096 // RANKS_PER_HOST
    print("| shards | index.json | gzip | parsed | 4,096 ranks together | once a host |")
    print("|--:|--:|--:|--:|--:|--:|")
    for shards in SHARDS:
        found = run("index", 1, shards * 1000, shards)
        size = found["bytes"] / 1e6
        cells = [f"{size:,.1f} MB", f"{found['packed'] / 1e6:,.1f} MB", cell(found)]
        cells += [f"{size * 4096 / 1e3:,.1f} GB", f"{size * hosts / 1e3:,.1f} GB"]
        print(f"| {shards:,} | {' | '.join(cells)} |", flush=True)


def print_requests() -> None:
    found = run("requests", 4096, 10**7, 10**3)
    hosts = 4096 // RANKS_PER_HOST
    asked = found["index"] + found["shards"] + found["others"]
    print(
        f"A host of {RANKS_PER_HOST} ranks sends {found['index']} requests for the index, "
        f"{found['shards']} for {found['different']} shards, and {found['others']} others: {asked} "
        f"requests. {hosts} hosts: {asked * hosts:,}, or "
        f"{asked * hosts / _REQUESTS_OF_S3:.1f} s at S3's request rate for one prefix."
    )


def main() -> None:
    what, arguments = sys.argv[1:2], sys.argv[2:]
    if what == ["case"]:
        case, sizes = arguments[0], [int(number) for number in arguments[1:]]
        if case in ORDERS:
            print(json.dumps(measured(lambda: ORDERS[case](*sizes))))
        else:
            print(json.dumps(OTHERS[case](*sizes)))
    elif what == ["write"]:
        with tempfile.TemporaryDirectory() as folder:
            content = index_of(int(arguments[1]) * 1000, int(arguments[1]), folder)
        Path(arguments[0]).write_bytes(content)
    elif what == ["rank"]:
        read_first_batch(*arguments)
    else:
        tables = {"order": print_orders, "state": print_states}
        tables |= {"index": print_indexes, "requests": print_requests}
        for name in sys.argv[1:] or tables:
            tables[name]()
            print()


if __name__ == "__main__":
    main()
