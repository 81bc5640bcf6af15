"""Objects in stores that are replaced after a dataset was opened, and objects that are not."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.http import HTTPFileSystem
from tests.kit.parquet_files import open_parquet
from tests.kit.servers.http import respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.web import WebServer

from mdstorm_backend import MDSWriter
from mdstorm_backend.base import map_files
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import Dataset, open_mds
from mdstorm_backend.errors import DatasetChangedError, DatasetNotFoundError
from mdstorm_backend.storage import Location, ObjectPins
from mdstorm_backend.storage.local_files import Version

URL, ROWS = f"s3://{BUCKET}/changed", 60


def write(s3: S3Server, added: int = 0) -> None:
    with MDSWriter(
        out=URL,
        columns={"n": "int64"},
        size_limit=300,
        exist_ok=True,
        storage_options={"endpoint_url": s3.url},
    ) as writer:
        for number in range(ROWS):
            writer.write({"n": number + added})


@pytest.fixture
def dataset(s3: S3Server, tmp_path: Path) -> Dataset:
    """A dataset that was written four days ago."""
    write(s3)
    for _ in range(2):
        s3.grow_old("changed/")
    options: dict[str, Any] = {"storage_options": {"endpoint_url": s3.url}}
    return open_mds(URL, cache=CacheOptions(directory=str(tmp_path / "local")), **options)


def numbers(dataset: Dataset) -> list[int]:
    return dataset.to_table()["n"].to_pylist()  # type: ignore[no-any-return]


def test_unchanged_objects_need_no_request_but_their_download(
    dataset: Dataset, s3: S3Server
) -> None:
    s3.requests.clear()
    assert numbers(dataset) == [*range(ROWS)]
    assert s3.count("GET", ".mds") == len(s3.requests) == len(dataset.shard_sizes)


def test_objects_and_index_that_are_written_again_raise_error(
    dataset: Dataset, s3: S3Server
) -> None:
    assert dataset[0] == {"n": 0}
    write(s3, 1000)
    assert dataset[0] == {"n": 0}  # in the cache
    with pytest.raises(DatasetChangedError, match="it and other files were written since"):
        dataset[ROWS - 1]


def test_objects_that_were_copied_after_their_index_are_read(
    dataset: Dataset, s3: S3Server
) -> None:
    for name, content in s3.objects("changed/").items():
        if name.endswith(".mds"):
            dataset.location.write(name, [content])
    s3.grow_old("changed/shard")
    s3.requests.clear()
    for info in dataset.index.shards:
        dataset.files.open(info)
    assert s3.count("HEAD", "index.json") == 1
    assert numbers(dataset) == [*range(ROWS)]


def test_object_that_differs_at_its_second_download_raises_error(
    dataset: Dataset, s3: S3Server
) -> None:
    info = dataset.index.shards[0]
    dataset.files.open(info)
    content = s3.objects("changed/")[info.raw_data.basename]
    dataset.location.write(info.raw_data.basename, [content[::-1]])
    assert dataset.files.discard(info)
    with pytest.raises(DatasetChangedError, match="another entity tag"):
        dataset.files.open(info)


@dataclass
class Published:
    """A directory of a store, with functions that upload, remove and open its files."""

    url: str
    put: Callable[[str, bytes], object]
    remove: Callable[[], object]
    grow_old: Callable[[], object]
    options: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def web() -> Iterator[WebServer]:
    pytest.importorskip("aiohttp")
    with closing(WebServer()) as server:
        yield server


@pytest.fixture(params=["s3", "web"])
def published(request: pytest.FixtureRequest) -> Published:
    server: Any = request.getfixturevalue(request.param)
    if request.param == "web":
        return Published(
            f"{server.url}/data",
            lambda name, content: server.put(f"/data/{name}", content),
            server.files.clear,
            server.grow_old,
        )
    options = server.options()
    url = f"s3://{BUCKET}/published"
    location = Location.of(url, options)
    server.remove("published/")
    return Published(
        url,
        lambda name, content: location.write(name, [content]),
        lambda: server.remove("published/"),
        lambda: server.grow_old("published/"),
        {"storage_options": options},
    )


def mds_files(path: Path, first: int, rows: int) -> None:
    with MDSWriter(out=str(path), columns={"n": "int64"}, size_limit=300) as writer:
        for number in range(first, first + rows):
            writer.write({"n": number})


def parquet_files(path: Path, first: int, rows: int) -> None:
    path.mkdir()
    for part in range(6):
        numbers = range(first + part * rows // 6, first + (part + 1) * rows // 6)
        options: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pq.write_table(pa.table({"n": [*numbers]}), path / f"{part}.parquet", **options)


FORMATS = {"mds": mds_files, "parquet": parquet_files}
#: What is published later: the first number, and how many.
CHANGES = {
    "equal sizes": (1000, ROWS),
    "equal bytes": (0, ROWS),
    "shards only": (1000, ROWS),
    "larger": (1000, 2 * ROWS),
    "deleted": (0, 0),
}


def contents(kind: str, path: Path, first: int, rows: int) -> dict[str, bytes]:
    if not rows:
        return {}
    FORMATS[kind](path, first, rows)
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def opened(published: Published, kind: str, names: list[str], **options: Any) -> Any:
    if kind == "mds":
        return open_mds(published.url, **published.options, **options)
    urls = [f"{published.url}/{name}" for name in names]
    return open_parquet(urls, **published.options, **options)


def change(published: Published, files: dict[str, bytes], how: str) -> None:
    if how in ("larger", "deleted"):
        published.remove()
    for name, content in files.items():
        if how != "shards only" or name != "index.json":
            published.put(name, content)


OLD, NEW = [*range(ROWS)], [*range(1000, 1000 + ROWS)]
CHANGED, MISSING = DatasetChangedError.__name__, DatasetNotFoundError.__name__


def outcome(read: Callable[[], list[int]]) -> str:
    """Return which rows are read, or the name of the error."""
    try:
        rows = read()
    except (DatasetChangedError, DatasetNotFoundError) as error:
        return type(error).__name__
    return "old" if rows == OLD else "new" if rows[:ROWS] == NEW else f"mixed: {rows}"


@pytest.mark.matrix
@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("kind", FORMATS)
def test_objects_that_change_give_old_rows_or_an_error(
    kind: str, how: str, published: Published, tmp_path: Path
) -> None:
    old = contents(kind, tmp_path / "old", 0, ROWS)
    new = contents(kind, tmp_path / "new", *CHANGES[how])
    names = [name for name in old if name.endswith(".parquet")]
    small = CacheOptions(limit=3 * max(map(len, old.values())))

    def publish(**options: Any) -> Any:
        published.remove()
        for name, content in old.items():
            published.put(name, content)
        published.grow_old()
        return opened(published, kind, names, **options)

    def read(dataset: Any) -> list[int]:
        return [dataset[number]["n"] for number in range(len(dataset))]

    found: dict[str, str] = {}
    dataset = publish()
    first = dataset[0]["n"]
    change(published, new, how)
    found["in another process"] = outcome(
        lambda: read(pickle.loads(pickle.dumps(dataset)))  # noqa: S301 - our own bytes
    )
    found["in a pass"] = outcome(lambda: [first, *read(dataset)[1:]])
    dataset = publish()
    assert read(dataset) == OLD
    change(published, new, how)
    found["between epochs"] = outcome(lambda: read(dataset))
    found["opened again"] = outcome(lambda: read(opened(published, kind, names)))
    dataset = publish(cache=small)
    assert read(dataset) == OLD
    dataset.release()
    change(published, new, how)
    limited = outcome(lambda: read(dataset))

    later = {"equal sizes": CHANGED, "shards only": CHANGED, "larger": CHANGED, "deleted": MISSING}
    # Copies of an MDS dataset are named by its index.
    again = {"equal bytes": "old", "deleted": MISSING} | (
        {"shards only": "old"} if kind == "mds" else {}
    )
    assert found == {
        "in another process": later.get(how, "old"),
        "in a pass": later.get(how, "old"),
        "between epochs": "old",
        "opened again": again.get(how, "new"),
    }
    assert limited in ("old", later.get(how))  # a file may be open


@pytest.mark.parametrize("states", [{"ETag"}, {"Last-Modified"}, set()])
def test_dataset_that_is_published_again_is_read_if_the_server_states_a_version(
    states: set[str], web: WebServer, tmp_path: Path
) -> None:
    web.states = states
    # The index of shards with hashes has another content, but not another size.
    for first in (0, 1000):
        path = tmp_path / f"{first}"
        with MDSWriter(out=str(path), columns={"n": "int64"}, size_limit=300) as writer:
            for number in range(first, first + ROWS):
                writer.write({"n": number})
        for file in path.iterdir():
            web.put(f"/data/{file.name}", file.read_bytes())
        if not first:
            web.grow_old()
        rows = [sample["n"] for sample in open_mds(f"{web.url}/data")[:]]
        # Without a time, an index of the same content is the same index.
        assert rows[0] == (first if "Last-Modified" in states else 0)


REFUSED = respond("405 Method Not Allowed")
BROKEN = respond("200 OK", b"", ("Transfer-Encoding", "no such"))


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave times out, as fsspec before version 2025.9 does, which Databricks' runtimes have."""
    describe = HTTPFileSystem._info

    async def without_time(self: Any, url: str, **options: Any) -> dict[str, Any]:
        info = await describe(self, url, **options)
        return {key: value for key, value in info.items() if key != "Last-Modified"}

    monkeypatch.setattr(HTTPFileSystem, "_info", without_time)
    monkeypatch.setattr(HTTPFileSystem, "_cache", {})  # its instances have the old method


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize("answer", [None, REFUSED, BROKEN], ids=["time", "refused", "broken"])
def test_time_of_file_that_fsspec_leaves_out_is_requested(answer: Any, web: WebServer) -> None:
    web.fault = lambda method, _: answer if method == "HEAD" else None
    web.put("/data/index.json", b"{}")
    location = Location.of(f"{web.url}/data")
    assert ("GMT" in location.modified("index.json")) == (answer is None)
    assert location.stat("index.json")["size"] == 2


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize("states", [{"ETag", "Last-Modified"}, {"Last-Modified"}, set()])
def test_parquet_whose_times_fsspec_leaves_out_is_read(
    states: set[str], web: WebServer, tmp_path: Path
) -> None:
    web.states = states
    pq.write_table(pa.table({"n": OLD}), tmp_path / "n.parquet", row_group_size=10)
    web.put("/data/n.parquet", (tmp_path / "n.parquet").read_bytes())
    dataset = open_parquet(f"{web.url}/data/n.parquet")
    assert dataset.to_table()["n"].to_pylist() == OLD
    web.requests.clear()
    assert Location.of(f"{web.url}/data").size("n.parquet")
    assert len(web.requests) == 1  # which needs no time


@pytest.mark.parametrize("states", [{"ETag", "Last-Modified"}, {"ETag"}, {"Last-Modified"}, set()])
def test_shards_that_a_server_got_after_their_index_are_read(
    states: set[str], web: WebServer, tmp_path: Path
) -> None:
    web.states = states
    files = contents("mds", tmp_path / "data", 0, ROWS)
    web.put("/data/index.json", files.pop("index.json"))
    web.grow_old()
    for name, content in files.items():
        web.put(f"/data/{name}", content)
    assert [sample["n"] for sample in open_mds(f"{web.url}/data")[:]] == OLD


def test_index_is_requested_once_for_all_threads(dataset: Dataset, s3: S3Server) -> None:
    for name, content in s3.objects("changed/").items():
        if name.endswith(".mds"):
            dataset.location.write(name, [content])
    s3.grow_old("changed/shard")
    s3.requests.clear()
    map_files(dataset.files.open, dataset.index.shards)
    assert s3.count("HEAD", "index.json") == 1


def test_process_forked_while_a_thread_requests_the_index_does_not_wait(web: WebServer) -> None:
    web.put("/data/index.json", b"{}")
    web.grow_old()
    location = Location.of(f"{web.url}/data")
    pins = ObjectPins(location, location.modified("index.json"))
    now = datetime.now(timezone.utc)
    version = Version(None, now, now)
    requested, forked = threading.Event(), threading.Event()

    def wait(method: str, path: str) -> None:
        if not requested.is_set():
            requested.set()
            assert forked.wait(60)

    web.fault = wait
    thread = threading.Thread(target=pins.compare, args=("a", version))
    thread.start()
    assert requested.wait(60)
    process = get_context("fork").Process(target=pins.compare, args=("b", version))
    process.start()
    process.join(60)
    forked.set()
    thread.join()
    assert process.exitcode == 0
