"""Change the files of a dataset while another process reads it, and classify the rows it gets."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.kit.parquet_files import open_parquet

from mdstorm_backend import (
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)

#: Rows of the data, in shards of about 1 MB and several blocks.
ROWS = 4000
#: The value of a row is its number, and in changed data its number plus this.
CHANGED = 10**6
_PAD = 256


def _mds(
    path: Path, *, added: int, rows: int, kind: str, compression: str | None, text: bool
) -> None:
    columns = {"n": "int", "v": kind, "pad": f"ndarray:int64:{_PAD}"}
    columns |= {"text": "str"} if text else {}
    options: Any = {"size_limit": 2 * rows * 64 + (1 << 19), "compression": compression}
    with MDSWriter(out=str(path), columns=columns, **options) as writer:
        numbers = np.arange(rows)
        pads = pa.FixedSizeListArray.from_arrays(numbers.repeat(_PAD), _PAD)
        values = {"n": numbers, "v": (numbers + added).astype(kind), "pad": pads}
        writer.write_batch(pa.table({**values, "text": ["text"] * rows}).select([*columns]))


def _parquet(path: Path, *, added: int, rows: int, kind: str) -> None:
    path.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), 8)):
        pad = [
            value.tobytes() for value in np.random.default_rng(7).integers(0, 9, (len(part), 64))
        ]
        column = "v" if kind == "int" else "w"
        table = pa.table({"n": part, column: part + added, "pad": pad})
        pq.write_table(table, path / f"{number}.parquet", row_group_size=100, compression="none")


KINDS: dict[str, Callable[..., None]] = {
    "records": lambda path, **how: _mds(path, compression=None, text=False, **how),
    "values": lambda path, **how: _mds(path, compression=None, text=True, **how),
    "zipped": lambda path, **how: _mds(path, compression="zstd", text=False, **how),
    "parquet": _parquet,
}


@cache
def written(folder: Path, kind: str, change: str) -> Path:
    """Return a directory with the data that a change of it writes, or the original for ""."""
    path = folder / f"{kind} {change}"
    rows = {"larger": ROWS * 3 // 2, "smaller": ROWS // 2}.get(change, ROWS)
    of_type = "float64" if change == "types" else "int"
    KINDS[kind](path, added=CHANGED if change else 0, rows=rows, kind=of_type)
    return path


def overwrite(path: Path, new: Path) -> None:
    """Write the content of new files into existing ones, as ``cp -r`` does."""
    for file in sorted(new.iterdir()):
        with open(path / file.name, "wb") as target:
            target.write(file.read_bytes())


def rename_over(path: Path, new: Path) -> None:
    for file in sorted(new.iterdir()):
        shutil.copy(file, path / "part.tmp")
        os.replace(path / "part.tmp", path / file.name)


def truncate(path: Path, new: Path) -> None:
    for file in sorted(path.iterdir()):
        if file.name != "index.json":
            os.truncate(file, file.stat().st_size // 2)


#: Each change: what is written, and how. What is deleted may be reported as missing.
CHANGES: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "same sizes": ("same", overwrite),
    "larger": ("larger", overwrite),
    "smaller": ("smaller", overwrite),
    "types": ("types", overwrite),
    "renamed": ("same", rename_over),
    "renamed larger": ("larger", rename_over),
    "truncated": ("same", truncate),
    "deleted": ("same", lambda path, new: shutil.rmtree(path)),
}
#: When the files change: after opening, after the first batch, and between two epochs.
MOMENTS = ("opened", "begun", "epoch")

Batches = Iterator[tuple[Any, Any]]
#: Opens a dataset, and returns a function that begins an epoch of it.
Open = Callable[[Path, str], Callable[[], Batches]]


def _opened(path: Path, kind: str) -> Any:
    return (open_parquet if kind == "parquet" else open_dataset)(str(path))


def batches(path: Path, kind: str, order: ExactOrder | None = None) -> Callable[[], Batches]:
    dataset = _opened(path, kind)
    return lambda: ((b["n"], b["v"]) for b in dataset.batches(100, order=order))


def shuffled(path: Path, kind: str) -> Callable[[], Batches]:
    return batches(path, kind, ExactOrder(shuffle_shards=True, shuffle_rows=True, window=2000))


def samples(path: Path, kind: str) -> Callable[[], Batches]:
    dataset = _opened(path, kind)
    return lambda: (([s["n"]], [s["v"]]) for s in map(dataset.__getitem__, range(len(dataset))))


def _streaming(path: Path, **options: Any) -> Any:
    dataset = StreamingDataset(remote=str(path), order=ExactOrder(), **options)
    assert len(dataset) == ROWS  # opens it
    return dataset


def iterated(path: Path, kind: str) -> Callable[[], Batches]:
    dataset = _streaming(path)
    return lambda: (([sample["n"]], [sample["v"]]) for sample in dataset)


def _loader(dataset: Any, **options: Any) -> Callable[[], Batches]:
    loader: Any = StreamingDataLoader(dataset, 100, **options)
    return lambda: ((b["n"].numpy(), b["v"].numpy()) for b in loader)


def loader(path: Path, kind: str) -> Callable[[], Batches]:
    return _loader(_streaming(path))


def workers(path: Path, kind: str) -> Callable[[], Batches]:
    return _loader(_streaming(path), num_workers=2)


def cached(path: Path, kind: str) -> Callable[[], Batches]:
    return _loader(_streaming(path, local=str(path.parent / "local")))


def reader(path: Path, kind: str, **options: Any) -> Callable[[], Batches]:
    from mdstorm import make_batch_reader

    opened = make_batch_reader(path.as_uri(), num_epochs=None, shuffle_row_groups=False, **options)

    def epoch() -> Batches:
        left = ROWS
        while left > 0:
            batch = next(opened)
            left -= len(batch.n)
            yield batch.n, batch.v

    return epoch


def skipping(path: Path, kind: str) -> Callable[[], Batches]:
    return reader(path, kind, on_corrupt="skip")


def _converter(path: Path) -> Any:
    from mdstorm.spark import make_spark_converter

    return make_spark_converter(path.as_uri())


def torch(path: Path, kind: str) -> Callable[[], Batches]:
    made = _converter(path).make_torch_dataloader(batch_size=100, num_epochs=1)
    # It opens the files when it is first used. Changed Parquet files have a column w instead of v.
    return lambda: ((b["n"].numpy(), (b["v"] if "v" in b else b["w"]).numpy()) for b in made)


def tf(path: Path, kind: str) -> Callable[[], Batches]:
    made = _converter(path).make_tf_dataset(batch_size=100, num_epochs=1)
    return lambda: ((b.n.numpy(), b.v.numpy()) for b in made)


ANY_KIND: dict[str, Open] = {
    f.__name__: f for f in (batches, shuffled, samples, reader, skipping, torch, tf)
}
OF_MDS: dict[str, Open] = {f.__name__: f for f in (iterated, loader, workers, cached)}


def run(path: Path, kind: str, read: Open, change: str, moment: str, new: Path) -> str:
    """Read two epochs in a new process, which changes the data at some moment; classify the rows.

    Returns
    -------
    str
        "old" if all rows of both epochs are the old ones, "new" if all are the new ones, the
        message of an error after old rows only, and otherwise what is wrong.
    """
    context: Any = get_context("fork")
    if read is tf:  # its threads do not survive a fork if another test has started them
        context = get_context("forkserver")
        context.set_forkserver_preload(["tensorflow", __name__])
    results = context.SimpleQueue()
    arguments = path, kind, read, change, moment, new
    process = context.Process(target=_child, args=(results, dict(os.environ), *arguments))
    process.start()
    process.join()
    if process.exitcode:
        return f"crashed ({process.exitcode})"
    return str(results.get())


def _wait_until_idle() -> None:
    """Wait until no other thread or child works, since a map must not shrink while it is copied."""
    found: list[bytes] | None = None
    while (now := _work()) is None or now != found:
        found = now
        threading.Event().wait(0.02)


def _work() -> list[bytes] | None:
    """Return the time that other threads and children have used; None if one is running."""
    own = threading.get_native_id()
    try:
        stats = [
            (task / "stat").read_bytes().rpartition(b") ")[2].split()
            for pid in _descendants(os.getpid())
            for task in Path(f"/proc/{pid}/task").iterdir()
            if task.name != str(own)
        ]
    except (FileNotFoundError, ProcessLookupError):  # one has just ended
        return None
    is_busy = any(fields[0] in (b"R", b"D") for fields in stats)
    return None if is_busy else [b" ".join(fields[11:13]) for fields in stats]


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _descendants(int(child))


def _child(results: Any, environment: dict[str, str], *arguments: Any) -> None:
    os.environ.update(environment)
    try:
        results.put(_read(*arguments))
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")


def _read(path: Path, kind: str, read: Open, change: str, moment: str, new: Path) -> str:
    def at(now: str) -> None:
        if now == moment:
            _wait_until_idle()
            CHANGES[change][1](path, new)

    begin, found = read(path, kind), set[float]()
    at("opened")
    for number in range(2):
        if number:
            at("epoch")
        seen: list[int] = []
        for place, (numbers, values) in enumerate(begin()):
            added = {*(np.asarray(values) - np.asarray(numbers)).tolist()}
            found = found or added
            if added != found or len(added) != 1:
                return f"WRONG: mixed rows in batch {place} of epoch {number}"
            seen += list(numbers)
            if not place and not number:
                at("begun")
        if sorted(seen) != [*range(ROWS)]:
            return f"WRONG: {len(seen)} rows of {ROWS}"
    return "new" if CHANGED in found else "old"
