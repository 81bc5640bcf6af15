"""Threads that use a store at the same time make as many clients of it as one thread does."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.small_datasets import write_dataset
from tests.unit.mds_backend.storage.conftest import forget_filesystems

from mdstorm import make_batch_reader
from mdstorm_backend import open_dataset
from mdstorm_backend.storage import Location, open_filesystem

THREADS = 8
ROWS = [*range(12)]


def read_rows(url: str) -> Any:
    with make_batch_reader(url, shuffle_row_groups=False, num_epochs=1) as reader:
        return [int(n) for batch in reader for n in batch.n]


USES: dict[str, Callable[[str], Any]] = {
    "file system": lambda url: open_filesystem(url, {})[0].exists(url),
    "location": lambda url: Location.of(url).read("index.json"),
    "dataset": lambda url: open_dataset(url).to_table()["n"].to_pylist(),
    "reader": read_rows,
}


@pytest.mark.usefixtures("often_switched", "fresh_filesystems")
@pytest.mark.parametrize(
    "use",
    # Datasets use locations, and readers use datasets.
    [
        pytest.param(use, marks=pytest.mark.long if use in ("location", "reader") else ())
        for use in USES
    ],
)
def test_threads_make_as_many_clients_as_one_thread(
    use: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    made: list[object] = []
    original = s3fs.S3FileSystem.__init__

    def make(self: Any, *arguments: Any, **options: Any) -> None:
        made.append(self)
        original(self, *arguments, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "__init__", make)
    url = f"s3://{BUCKET}/{use}".replace(" ", "")
    write_dataset(url, {"n": ROWS}, {"n": "long"}, shard_size=60)
    forget_filesystems()
    made.clear()
    expected, alone = USES[use](url), len(made)
    forget_filesystems()
    made.clear()
    together = threading.Barrier(THREADS)

    def run(_: int) -> Any:
        together.wait(60)
        return USES[use](url)

    with ThreadPoolExecutor(THREADS) as pool:
        found = [*pool.map(run, range(THREADS))]
    assert found == [expected] * THREADS
    assert len(made) == alone
