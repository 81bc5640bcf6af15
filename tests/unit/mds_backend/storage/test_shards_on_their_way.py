"""Shards whose first rows are read before their last rows are downloaded."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.servers.http import WSGIApp, WSGIEnvironment, respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.unit.mds_backend.cache.shards import files_in, parts_in

from mdstorm_backend import Dataset, ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.cache import CacheOptions, shard_cache, shard_files
from mdstorm_backend.errors import StorageError
from mdstorm_backend.format.index import Index
from mdstorm_backend.read import mds_shard, reader
from mdstorm_backend.storage import Arrival, Location, s3_objects
from mdstorm_backend.storage.s3_objects import S3Object
from mdstorm_backend.storage.turns import Pace, RequestTurns

ROWS = [os.urandom(1000) for _ in range(40)]
URL, SHARD = f"s3://{BUCKET}/way", "shard.00000.mds"

_READER = """
import sys
from mdstorm_backend import open_dataset
from mdstorm_backend.cache import CacheOptions, shard_cache
from mdstorm_backend.storage import s3_objects
s3_objects.RANGE, s3_objects.FIRST_RANGE, shard_cache.SOON_WHOLE = 8000, 2000, 1000
dataset = open_dataset(sys.argv[1], cache=CacheOptions(directory=sys.argv[2]))
for batch in dataset.batches(4):
    print(len(batch["row"]), flush=True)
"""


@pytest.fixture(autouse=True)
def location(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """A dataset with two shards, which are downloaded in small ranges."""
    monkeypatch.setattr(s3_objects, "RANGE", 8000)
    monkeypatch.setattr(s3_objects, "FIRST_RANGE", 2000)
    monkeypatch.setattr(shard_cache, "SOON_WHOLE", 1000)
    for name in ("BLOCK_BYTES", "COLUMN_BYTES"):  # each block has one batch
        monkeypatch.setattr(reader, name, 1)
    with MDSWriter(out=str(tmp_path / "source"), size_limit=21_000) as writer:
        writer.write_batch(pa.table({"row": ROWS}))
    found = Location.of(URL, {"endpoint_url": s3.url})
    for path in (tmp_path / "source").iterdir():
        found.write(path.name, [path.read_bytes()])
    s3.reset()
    return found


def faulty(s3: S3Server, fault: Callable[[int], WSGIApp | None]) -> None:
    """Answer range requests for the first shard with `fault(start)`, or as usual if it is None."""

    def answered(environ: WSGIEnvironment, start: Any) -> Any:
        first = environ.get("HTTP_RANGE", "bytes=0-")[len("bytes=") :].partition("-")[0]
        return (fault(int(first)) or s3.app)(environ, start)

    s3.fault = lambda _, path: answered if path.endswith(SHARD) else None


def held(s3: S3Server, begin: int = 8000) -> threading.Event:
    """Hold back responses for later ranges of the first shard until the event is set."""
    release = threading.Event()
    faulty(s3, lambda first: release.wait(60) and None if first >= begin else None)
    return release


def batches(tmp_path: Path, order: ExactOrder | None = None, **options: Any) -> Any:
    local = str(tmp_path / "cache")
    dataset = StreamingDataset(remote=URL, local=local, batch_size=4, order=order, **options)
    return (list(batch["row"]) for batch in StreamingDataLoader(dataset, batch_size=4))


@pytest.mark.long
@pytest.mark.parametrize("order", [None, ExactOrder()], ids=["elastic", "exact"])
def test_first_rows_are_read_before_their_shard_is_complete(
    order: ExactOrder | None, s3: S3Server, tmp_path: Path
) -> None:
    release = held(s3)
    found = batches(tmp_path, order)
    rows = next(found)
    assert SHARD not in files_in(tmp_path / "cache")
    other = batches(tmp_path, order)  # waits for the shard to be downloaded
    release.set()
    rows += [row for batch in found for row in batch]
    assert rows == [row for batch in other for row in batch] == ROWS
    assert (SHARD in files_in(tmp_path / "cache"), parts_in(tmp_path / "cache")) == (True, [])


@pytest.mark.parametrize("order", [None, ExactOrder()], ids=["elastic", "exact"])
def test_first_blocks_shard_is_requested_alone_until_it_arrives(
    order: ExactOrder | None, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other shards are requested as answers arrive, because the first batch waits for it."""
    url, shards = f"s3://{BUCKET}/many", 12
    with MDSWriter(out=str(tmp_path / "many"), size_limit=300) as writer:
        writer.write_batch(pa.table({"row": [row[:200] for row in ROWS[:shards]]}))
    target = Location.of(url, {"endpoint_url": s3.url})
    for path in (tmp_path / "many").iterdir():
        target.write(path.name, [path.read_bytes()])
    events, waiting = list[str](), list[int]()
    is_waiting, are_waiting = threading.Event(), threading.Event()
    begin_shard, taken, get = Dataset.begin_shard, RequestTurns.taken, S3Object.get

    def begin(dataset: Dataset, number: int) -> Any:
        assert number == 0 or is_waiting.wait(60)  # the threads of other shards may not overtake
        return begin_shard(dataset, number)

    def take(turns: RequestTurns, work: int, *place: int) -> Any:
        waiting.append(work)
        is_waiting.set()
        if len(waiting) == shards:
            are_waiting.set()
        return taken(turns, work, *place)

    async def recorded(requested: S3Object, *bounds: int | None) -> Any:
        events.append("request")
        found = await get(requested, *bounds)
        events.append("answer")
        return found

    def answered(environ: WSGIEnvironment, start: Any) -> Any:
        assert are_waiting.wait(60)
        return s3.app(environ, start)

    source = StreamingDataset(remote=url, local=str(tmp_path / "cache"), batch_size=1, order=order)
    assert len(source) == shards  # reads the index
    monkeypatch.setattr(Dataset, "begin_shard", begin)
    monkeypatch.setattr(RequestTurns, "taken", take)
    monkeypatch.setattr(S3Object, "get", recorded)
    s3.fault = lambda _, path: answered if path.endswith(".mds") else None
    assert len(list(StreamingDataLoader(source, batch_size=1))) == shards
    assert events[:2] == ["request", "answer"]
    assert len(events) == 2 * shards


@pytest.mark.parametrize(
    ("most", "breaks", "alone"),
    [(64, False, 4), (64, True, 4), (1, False, 0)],
    ids=["alone", "broken", "too many"],
)
def test_first_rows_in_a_shuffled_pass_are_requested_individually_if_few(
    most: int,
    breaks: bool,
    alone: int,
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mds_shard, "MOST_REQUESTED", most)
    monkeypatch.setattr(mds_shard, "PART_REQUESTED", 1)
    of_rows, release = [], threading.Event()
    measured: list[int] = []
    monkeypatch.setattr(Pace, "answered", lambda *measurement: measured.append(measurement[-1]))
    reset = respond("206 Partial Content", b"", ("Content-Range", "bytes 0-1/2"))

    def answered(environ: WSGIEnvironment, start: Any) -> Any:
        first, last = map(int, environ["HTTP_RANGE"][len("bytes=") :].split("-"))
        if last - first < 1010:  # a row and the length stored before it
            of_rows.append(first)
            if breaks and len(set(of_rows)) == alone:
                release.set()
            return (reset if breaks else s3.app)(environ, start)
        assert first < 2000 or release.wait(20)
        return s3.app(environ, start)

    s3.fault = lambda _, path: answered if path.endswith(".mds") else None
    found = batches(tmp_path, ExactOrder(3, window=40))
    if not alone:
        release.set()
    rows = next(found)
    release.set()
    assert sorted([*rows, *(row for batch in found for row in batch)]) == sorted(ROWS)
    assert len(set(of_rows)) == alone
    assert min(measured) > 1010  # single rows are not measured: they only show latency


def test_shard_replaced_while_being_read_raises_error(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    release = held(s3)
    found = batches(tmp_path)
    assert next(found) == ROWS[:4]
    content = bytearray(location.read(SHARD))
    content[-1] ^= 1
    location.write(SHARD, [content])
    release.set()
    with pytest.raises(StorageError, match=rf"^{URL}/{SHARD} was replaced .* the dataset again"):
        list(found)
    assert parts_in(tmp_path / "cache") == []
    s3.fault = None
    assert [row for batch in batches(tmp_path) for row in batch][:19] == ROWS[:19]


@pytest.mark.parametrize("resets", [5, 10])
def test_retry_requests_only_the_missing_ranges(
    resets: int, s3: S3Server, location: Location, tmp_path: Path
) -> None:
    content = location.read(SHARD)
    asked: list[int] = []
    tag = hashlib.md5(content).hexdigest()
    headers = ("Content-Range", f"bytes 0-1/{len(content)}"), ("ETag", f'"{tag}"')
    reset = respond("206 Partial Content", b"", *headers)

    known: Future[Arrival] = Future()

    def fault(first: int) -> WSGIApp | None:
        asked.append(first)
        if first < 16_000 or asked.count(first) > resets:
            return None
        known.result(60).wait_for(16_000)  # otherwise, a range in flight is requested again
        return reset

    faulty(s3, fault)
    cache = CacheOptions(directory=str(tmp_path / "cache"))
    files = shard_files(location, "f", cache, written="now")
    info = Index.from_bytes(location.read("index.json"), url=URL).shards[0]
    with WorkAhead(1) as ahead:
        arrival = ahead.result(ahead.begin(files.stream, info))
        assert isinstance(arrival, Arrival)
        known.set_result(arrival)
        with nullcontext() if resets == 5 else pytest.raises(StorageError, match="2 attempts"):
            arrival.wait_for(len(content))
            assert arrival.content == content
    once = dict.fromkeys([0, 2000, 4000, 6000, 8000], 1)
    assert {first: asked.count(first) for first in asked} == {**once, 16_000: min(resets + 1, 10)}
    assert parts_in(tmp_path / "cache") == []


@pytest.mark.long
def test_process_killed_while_reading_leaves_no_shards(s3: S3Server, tmp_path: Path) -> None:
    release = held(s3)
    command = [sys.executable, "-c", _READER, URL, str(tmp_path / "cache")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "4\n"
        os.kill(process.pid, signal.SIGKILL)
    release.set()
    assert SHARD not in files_in(tmp_path / "cache")
    assert [row for batch in batches(tmp_path) for row in batch] == ROWS
    assert parts_in(tmp_path / "cache") == []
