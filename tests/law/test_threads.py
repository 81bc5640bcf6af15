"""What several threads do at once with one object, each gets as a single thread would.

The threads begin together, and the interpreter switches between them as often as it can. Work that
is done once, such as opening files and counting rows, leaves the same warnings and log lines.
"""

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.kit.small_datasets import array_of, struct_of, write_dataset

from mdstorm import make_batch_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.cache import CacheOptions

ROWS, THREADS = 24, 6
COLUMNS: dict[str, list[Any]] = {
    "n": [*range(ROWS)],
    "word": [f"word {n}" for n in range(ROWS)],
    "list": [[n, n + 1] for n in range(ROWS)],
    "lists": [[[float(n)]] * 2 for n in range(ROWS)],
    "nested": [{"a": n} for n in range(ROWS)],
}
FIELDS: Any = {
    **{"n": "long", "word": "string", "list": array_of("long")},
    **{"lists": array_of(array_of("double")), "nested": struct_of(a="long")},
}


@dataclass(frozen=True)
class Data:
    mds: Path
    zipped: Path
    parquet: Path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    root = tmp_path_factory.mktemp("threads")
    write_dataset(root / "mds", COLUMNS, FIELDS, shard_size=900)
    write_dataset(root / "zipped", COLUMNS, FIELDS, shard_size=900, compression="zstd")
    (root / "parquet").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 3)):
        table = pa.table(COLUMNS).take(rows)
        pq.write_table(table, root / f"parquet/{number}.parquet", row_group_size=3)
    return Data(root / "mds", root / "zipped", root / "parquet")


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def streaming(path: Path, **options: Any) -> StreamingDataset:
    return StreamingDataset(local=str(path), order=ExactOrder(), **options)


def cached(data: Data, folder: Path) -> Any:
    return open_dataset(str(data.zipped), cache=CacheOptions(directory=str(folder / "cache")))


def rows(dataset: Any, thread: int) -> Any:
    """Read single rows, each thread in another order."""
    order = np.random.default_rng(thread).permutation(ROWS)
    found = {int(number): plain(dataset[int(number)]) for number in order}
    return [found[number] for number in range(ROWS)]


def table(dataset: Any, thread: int) -> Any:
    return dataset.to_table().to_pylist()


def batches(dataset: Any, thread: int) -> Any:
    loader = StreamingDataLoader(dataset, batch_size=5)
    return [plain(batch["n"]) for batch in loader]


def converted(converter: Any, thread: int) -> Any:
    with converter.make_torch_dataloader(5, num_epochs=1, shuffle_row_groups=False) as loader:
        return [plain(batch["n"]) for batch in loader]


def converter(data: Data, folder: Path) -> Any:
    dataset = open_dataset(data.mds)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)


def read(path: Path, thread: int) -> Any:
    with make_batch_reader(path.as_uri(), shuffle_row_groups=False, seed=1) as reader:
        return [plain(batch.n) for batch in reader]


def chosen(path: Path, thread: int) -> Any:
    where = [("n", ">", 5)]
    return [int(sample["n"]) for sample in streaming(path, where=where, row_numbers="row")]


def opened(path: Path, thread: int) -> Any:
    return open_dataset(path.as_uri()).to_table().to_pylist()


#: What is made once, and what each thread does with it.
USES: dict[str, tuple[Callable[[Data, Path], Any], Callable[[Any, int], Any]]] = {
    "rows of MDS": (lambda data, _: open_dataset(data.mds), rows),
    "rows of a StreamingDataset": (lambda data, _: streaming(data.mds), rows),
    "rows of compressed shards": (cached, rows),
    "rows of Parquet": (lambda data, _: open_parquet(str(data.parquet)), rows),
    "table of MDS": (lambda data, _: open_dataset(data.mds), table),
    "table of compressed shards": (cached, table),
    "table of Parquet": (lambda data, _: open_parquet(str(data.parquet)), table),
    "length": (lambda data, _: streaming(data.parquet.parent / "mds"), lambda one, _: len(one)),
    "state": (
        lambda data, _: streaming(data.mds),
        lambda one, _: json.dumps(one.state_dict(6, True)),
    ),
    "loaders of a converter": (converter, converted),
    "opening MDS": (lambda data, _: data.mds, opened),
    "opening compressed shards": (lambda data, _: data.zipped, opened),
    "readers of a path": (lambda data, _: data.parquet, read),
    "conditions": (lambda data, _: data.mds, chosen),
}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return our log lines, without times and paths."""
    ours = [one for one in caplog.records if one.name.startswith("mdstorm")]
    found = sorted(f"{one.name} {one.msg}" for one in ours if one.levelno >= logging.WARNING)
    caplog.clear()
    return found


@pytest.mark.filterwarnings("ignore:.*has an unsupported field")
@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("use", USES)
def test_threads_get_what_one_thread_gets(
    use: str,
    rounds: int,
    data: Data,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    often_switched: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make, do = USES[use]
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "alone"))
    expected = do(make(data, tmp_path / "one"), 0)
    logged = lines(caplog)
    for turn in range(rounds):
        monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / f"kept {turn}"))
        thing, together = make(data, tmp_path / f"{turn}"), threading.Barrier(THREADS)

        def run(thread: int, thing: Any = thing, together: Any = together) -> Any:
            together.wait(60)
            return do(thing, thread)

        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(run, range(THREADS)))
        assert found == [expected] * THREADS
        assert lines(caplog) == logged
