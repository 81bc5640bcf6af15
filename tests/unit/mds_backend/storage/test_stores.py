"""The same operations on every store, using its real protocol."""

import gc
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.programs import run_program
from tests.kit.servers.databricks import DatabricksServer
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.http import StartResponse, WSGIApp, WSGIEnvironment, cut_off, respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.small_datasets import plan, store_batches, write_ints
from tests.unit.mds_backend.storage.conftest import Store

from mdstorm_backend import StreamingDataLoader, StreamingDataset, merge_index, open_dataset
from mdstorm_backend.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    StorageError,
    WriteError,
)
from mdstorm_backend.format.index import Index
from mdstorm_backend.storage import Location, databricks_files, urls
from mdstorm_backend.storage.filesystems import open_filesystem
from mdstorm_backend.write.commit import publish
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.job_files import mark_directory, remove_dataset

FIELDS = {"number": "long", "text": "string"}
TABLE = pa.table({"number": range(500), "text": [f"number {n}" for n in range(500)]})


def write(location: Location, compression: str | None = None) -> Index:
    schema = plan(FIELDS)
    mark_directory(location)
    format_ = ShardFormat(6000, compression)
    reports = store_batches(TABLE.to_batches(), location, schema, format_, "part-00000-0")
    return publish(location, schema, reports)


class Content:
    """The value of a caller's variable; a weak reference shows whether the value is kept alive."""


@pytest.mark.long
@pytest.mark.parametrize(
    "check",
    [Location.exists, Location.size, lambda location, _: location.describe()],
    ids=["exists", "size", "describe"],
)
def test_check_for_missing_file_does_not_keep_callers_variables_alive(
    store: Store, check: Callable[[Location, str], object]
) -> None:
    if store.url.startswith("dbfs:/data"):
        pytest.skip("Databricks' client keeps errors that it handles itself")

    def caller() -> "weakref.ref[Content]":
        content = Content()
        assert not check(store.location, "missing")
        return weakref.ref(content)

    gc.disable()  # collection may come late, so memory must be freed without it
    try:
        assert caller()() is None
    finally:
        gc.enable()


def test_check_for_missing_file_keeps_variables_of_error_that_caller_handles(store: Store) -> None:
    def fail() -> None:
        reason = "known"
        raise KeyError(reason)

    def check() -> None:
        try:
            fail()
        except KeyError:
            store.location.exists("missing")
            raise

    with pytest.raises(KeyError) as caught:
        check()
    assert caught.traceback[-1].frame.f_locals == {"reason": "known"}


@pytest.mark.matrix
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_dataset_is_written_read_and_removed_and_second_write_raises_error(
    store: Store, compression: str | None
) -> None:
    index = write(store.location, compression)
    assert len(index.shards) > 2
    with pytest.raises(WriteError, match="another writer is using the same directory"):
        write(store.location, compression)
    dataset = open_dataset(store.url, storage_options=store.storage_options)
    assert dataset.to_table().equals(TABLE)
    assert dataset[7] == {"number": 7, "text": "number 7"}
    assert remove_dataset(store.location) == []
    assert store.location.list_names() == []
    with pytest.raises(DatasetNotFoundError, match="no dataset at"):
        open_dataset(store.url, storage_options=store.storage_options)


def test_threads_share_a_file_system_until_instance_cache_is_cleared(store: Store) -> None:
    fs, _ = open_filesystem(store.location.url, store.storage_options)
    with ThreadPoolExecutor(1) as pool:
        other, path = pool.submit(
            open_filesystem, store.location.url, dict(store.storage_options)
        ).result()
    assert other is fs or store.url.startswith("memory:")
    assert path == store.location.path
    fs.clear_instance_cache()
    again, _ = open_filesystem(store.location.url, store.storage_options)
    assert again is not fs


@pytest.mark.long
def test_files_can_be_listed_described_replaced_and_removed(store: Store, tmp_path: Path) -> None:
    location = store.location
    assert location.list_sizes() == []
    assert not location.exists("a")
    location.make_directory()
    location.child("b").make_directory()
    location.write("a", [b"a longer ", b"text"])
    location.write("a", [b"sh", memoryview(b"or"), bytearray(b"t")])
    location.write("b/c", [b""])
    assert location.list_sizes() == [("a", 5), ("b/c", 0)]
    assert location.stat("a")["size"] == 5
    assert bytes(location.read("a")) == b"short"
    location.download("a", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"short"
    assert location.modified("a")  # for files in memory, when they were made
    location.remove("a")
    location.remove("a")
    location.remove("b/c")
    assert location.list_names() == []
    location.remove_directory_if_empty()


def test_datasets_are_written_merged_and_replaced(store: Store) -> None:
    b, options = f"{store.url}/b", {"storage_options": store.storage_options}
    how = {**options, "compression": "zstd", "hashes": ["sha1"], "size_limit": 400}

    def numbers_in(url: str) -> Any:
        return open_dataset(url, **options).to_table()["n"].to_pylist()

    write_ints(b, range(60), **how)
    write_ints(f"{store.url}/a", range(60, 90), **how)
    merge_index(store.url, **options)
    assert numbers_in(store.url) == [*range(60, 90), *range(60)]
    assert numbers_in(b) == list(range(60))
    with pytest.raises(DatasetExistsError):
        write_ints(b, range(5), **how)
    write_ints(b, range(5), exist_ok=True, **how)
    assert numbers_in(b) == list(range(5))


@pytest.mark.parametrize(("failures", "succeeds"), [(4, True), (5, False)])
def test_failing_workspace_request_is_retried(
    failures: int, succeeds: bool, databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databricks_files.time, "sleep", lambda seconds: None)
    location = Location.of("dbfs:/Volumes/main/default/volume/x")
    location.write("a", [b"1"])
    answers = iter([respond("500 Internal Server Error")] * failures)
    databricks.fault = lambda method, path: next(answers, None)
    with nullcontext() if succeeds else pytest.raises(StorageError, match="InternalError"):
        assert location.size("a") == 1


@pytest.mark.parametrize("directory", ["Volumes/main/default/volume/a b", "a b"])
def test_range_of_a_workspace_file_downloads_only_that_range(
    directory: str, databricks: DatabricksServer
) -> None:
    location = Location.of(f"dbfs:/{directory}")
    content = os.urandom(4 << 20)
    location.write("file", [content])
    sent: list[int] = []

    def counted(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        body = b"".join(databricks.workspace(environ, start))
        sent.append(len(body))
        return [body]

    databricks.fault = lambda method, path: counted
    first, last = 5, (1 << 20) + 10
    assert location.read_range("file", first, last) == content[first:last]
    assert location.read_range("file", len(content) - 8, len(content)) == content[-8:]
    assert sum(sent) < 2 << 20


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_google_requests_are_retried_after_faults(
    gs: GoogleServer, workers: int, tmp_path: Path
) -> None:
    url = f"gs://{BUCKET}/faults"
    write(Location.of(url))
    busy = respond("503 Service Unavailable")
    faults = [("mds", cut_off(gs.app, 100)), ("mds", busy), ("json", busy)]

    def once_each(method: str, path: str) -> WSGIApp | None:
        is_next = faults and path.startswith("/download/") and path.endswith(faults[-1][0])
        return faults.pop()[1] if is_next else None

    gs.fault = once_each
    dataset = StreamingDataset(remote=url, local=str(tmp_path / "local"), batch_size=50)
    loader = StreamingDataLoader(dataset, batch_size=50, num_workers=workers)
    assert [n for batch in loader for n in batch["number"].tolist()] == list(range(500))
    assert faults == []
    remove_dataset(Location.of(url))


def test_files_written_or_removed_by_another_client_are_listed_correctly(s3: S3Server) -> None:
    options = {"endpoint_url": s3.url}
    ours = Location.of(f"s3://{BUCKET}/shared", options)
    other = Location.of(ours.url, {**options, "default_fill_cache": False})
    for count, name in enumerate("abc"):
        other.write(name, [b"1"])
        assert ours.exists(name)
        assert len(ours.list_names()) == count + 1
    for name in "abc":
        other.remove(name)
    assert ours.list_names() == []


def test_threads_that_open_a_store_at_the_same_time_connect_once(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, connected = 16, list[object]()
    options = {"endpoint_url": s3.url, "version_aware": False}
    together = Barrier(threads)
    check = urls.check_reachable
    monkeypatch.setattr(urls, "check_reachable", lambda fs: (connected.append(fs), check(fs)))

    def opened(_: int) -> Any:
        together.wait(timeout=30)
        return open_filesystem(f"s3://{BUCKET}/threads", options)[0]

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(opened, range(threads)))
    assert connected == [found[0]]
    assert all(fs is found[0] for fs in found)


def test_file_systems_of_s3_read_its_definition_once(s3: S3Server) -> None:
    options = [{"endpoint_url": s3.url, "default_fill_cache": fills} for fills in (True, False)]
    one, other = (open_filesystem(f"s3://{BUCKET}/once", given)[0] for given in options)
    assert one is not other
    definitions = one.session.get_component("data_loader")
    assert definitions is other.session.get_component("data_loader")


_FORKING = """
import os, sys
root, url, endpoint, directory = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from mdstorm_backend.cache import CacheOptions, shard_files
from mdstorm_backend.storage import Location
from tests.unit.mds_backend.cache.shards import contents, make_shards

location, source = Location.of(url, {"endpoint_url": endpoint}), Path(directory) / "source"
infos = make_shards(source, 3, compression="gz")
for info in infos:
    location.write(info.stored.basename, [(source / info.stored.basename).read_bytes()])
options = CacheOptions(directory=f"{directory}/local", timeout=20, retry=1)
files = shard_files(location, "f", options, written="now")
files.open(infos[0])
child = os.fork()
if child == 0:
    os._exit(0 if bytes(files.open(infos[1])) == contents(infos)[1] else 3)
assert os.waitpid(child, 0)[1] == 0
assert bytes(files.open(infos[2])) == contents(infos)[2]
"""


@pytest.mark.long
def test_forked_child_downloads_shards_like_its_parent(s3: S3Server, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/forked"
    run_program(_FORKING, Path(__file__).parents[4], url, s3.url, tmp_path, cwd=tmp_path)
    assert s3.count("GET", ".gz") == 3
