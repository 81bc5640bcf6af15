"""Stream arguments, weights, shard directories and methods overridden by subclasses."""

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import (
    ExactOrder,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    streams_registry,
)
from mdstorm_backend.datasets.open_streams import open_stream
from mdstorm_backend.datasets.stream_files import StreamDefaults, StreamFiles
from mdstorm_backend.errors import ArgumentTypeError, DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.streaming.base.spanner import Spanner
from mdstorm_backend.streaming.base.world import World


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"local": "a", "proportion": -0.1}, "proportion of a stream must be finite and not neg"),
        ({"local": "a", "download_retry": -1}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_retry": 0}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_retry": True}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_timeout": 0}, "download_timeout must be a positive number"),
        ({"local": "a", "download_timeout": "9"}, "download_timeout must be a positive number"),
    ],
)
def test_invalid_stream_arguments_raise_error(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Stream(**arguments)
    with pytest.raises(ArgumentTypeError, match="the repeat of a stream must be a number"):
        Stream(local="a", repeat="2")  # type: ignore[arg-type]


def test_derived_stream_weights_are_shown_but_do_not_count_as_arguments_of_a_copy() -> None:
    stream, other = (Stream(local=name, proportion=1) for name in "ab")
    assert Stream.apply_weights([stream, other], [10, 10], 40, 17) == 40
    assert (stream.proportion, stream.repeat, stream.choose) == (0.5, 2.0, 20)
    copy = pickle.loads(pickle.dumps(stream))  # noqa: S301 - our own bytes
    assert Stream.apply_weights([copy, Stream(local="c", proportion=3)], [10, 10], 40, 17) == 40
    assert (copy.proportion, copy.repeat, copy.choose) == (0.25, 1.0, 10)


def test_weights_are_applied_as_in_mosaicml_streaming() -> None:
    relative = [Stream(local="a", proportion=share) for share in (1, 2, 4)]
    absolute = [Stream(local="a", repeat=1.5), Stream(local="b"), Stream(local="c", choose=4)]
    assert Stream.validate_weights(relative) == (True, False)
    assert Stream.validate_weights(absolute) == (False, False)
    assert Stream.validate_weights([Stream(local="a")]) == (False, True)
    for _ in range(2):  # the second time, derived values do not count as arguments
        assert Stream.apply_weights(relative, [30, 20, 10], None, 17) == 60
        assert Stream.apply_weights(absolute, [30, 20, 10], None, 17) == 69
    assert [stream.choose for stream in relative] == [8, 17, 35]
    assert [stream.choose for stream in absolute] == [45, 20, 4]
    with pytest.raises(ValueError, match="cannot be mixed"):
        Stream.validate_weights([*relative, *absolute])


def test_stream_without_local_and_remote_raises_error_on_reading() -> None:
    stream = Stream()
    assert (stream.local, stream.remote, stream.split) == (None, None, "")
    with pytest.raises(InvalidArgumentError, match="a stream needs the URL or path"):
        open_stream(stream, StreamDefaults())


def test_stream_local_is_its_shard_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    remote = write_numbers(tmp_path / "data" / "train", 10, compression="zstd")
    assert Stream(remote=str(tmp_path / "data")).local == str(tmp_path / "data")
    elsewhere = Stream(remote="s3://acorns/train")
    assert elsewhere.local is not None
    assert elsewhere.local.startswith(str(tmp_path / "cached"))
    stream = Stream(remote=str(tmp_path / "data"), split="train")
    assert open_stream(stream, StreamDefaults())[0]
    name = remote.index.shards[0].raw_data.basename
    assert stream.local is not None
    assert (Path(stream.local) / name).exists()


def test_stream_inherits_arguments_from_its_dataset(tmp_path: Path) -> None:
    write_numbers(tmp_path / "data" / "train", 10)
    defaults = StreamDefaults(split="train", download_retry=5, keep_zip=True, cache_limit="1gb")
    places = {"remote": str(tmp_path / "data"), "local": str(tmp_path / "cache")}
    stream = Stream(**places, download_timeout=7, keep_zip=False)
    cache = open_stream(stream, defaults).cache
    assert cache is not None
    assert cache.directory == str(tmp_path / "cache" / "train")
    assert (cache.limit, cache.retry, cache.timeout, cache.keep_zip) == (1 << 30, 5, 7, False)
    other = Stream(local=str(tmp_path), split="data/train")
    assert len(open_stream(other, defaults)) == 10


def test_stream_of_missing_dataset_raises_error_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="pass its URL as remote") as caught:
        open_stream(Stream(local=str(tmp_path)), StreamDefaults())
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(DatasetNotFoundError, match="there is no dataset at"):
        open_stream(Stream(remote=str(tmp_path), local=str(tmp_path / "x")), StreamDefaults())


def test_pickling_a_dataset_with_credentials_raises_error(tmp_path: Path) -> None:
    def dataset(**options: Any) -> StreamingDataset:
        # With an order, nothing is opened.
        return StreamingDataset(local=str(tmp_path), order=ExactOrder(), storage_options=options)

    pickle.dumps(dataset(anon=True))
    with pytest.raises(InvalidArgumentError, match=r"\['secret'\]") as caught:
        pickle.dumps(dataset(secret="hush"))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("number", [-1, 6])
def test_stream_index_out_of_range_raises_index_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"Invalid sample index {number}: there are 6 samples"):
        Spanner(np.array([3, 3]))[number]


ROWS, SHARDS = 40, 4


class Noting(Stream):
    """Records requests in a file, so that worker processes can also record theirs."""

    notes: Path

    def note(self, text: str) -> None:
        with self.notes.open("a") as file:
            file.write(f"{text}\n")


class EveryOther(Noting):
    def get_shards(self, world: World, allow_unsafe_types: bool) -> list[Any]:
        self.note(f"get_shards {world.rank} of {world.num_ranks} {allow_unsafe_types}")
        return super().get_shards(world, allow_unsafe_types)[::2]


class Preparing(Noting):
    def prepare_shard(self, shard: Any) -> int:
        self.note(f"prepare {shard.raw_data.basename}")
        return super().prepare_shard(shard)


class Downloading(Noting):
    def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
        self.note(f"download {from_basename}")
        return super()._download_file(from_basename, to_basename)


class Copying(Stream):
    """Downloads files from a custom location."""

    def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
        assert self.remote is not None
        assert self.local is not None
        target = Path(self.local, self.split, to_basename or from_basename)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(self.remote.removeprefix("own://"), self.split, from_basename), target)
        return str(target)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Noting, "notes", tmp_path / "notes", raising=False)
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    (tmp_path / "notes").touch()
    return tmp_path / "notes"


@pytest.fixture(params=[None, "zstd"])
def remote(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    dataset = write_numbers(
        tmp_path / "data" / "train", ROWS, tasks=SHARDS, compression=request.param
    )
    return dataset.url.removesuffix("/train").removeprefix("file://")


def numbers(dataset: Any) -> list[int]:
    return [int(sample["number"]) for sample in dataset]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_stream_subclass_can_prepare_missing_shards(
    tmp_path: Path, remote: str, notes: Path, num_workers: int
) -> None:
    place = {"remote": remote, "local": str(tmp_path / "local"), "split": "train"}
    dataset = StreamingDataset(streams=[Preparing(**place)], batch_size=4)
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=num_workers)
    assert sorted(n for batch in loader for n in batch["number"].tolist()) == list(range(ROWS))
    names = sorted(f"prepare {shard.raw_data.basename}" for shard in dataset.shards)
    assert sorted({*notes.read_text().splitlines()}) == names
    notes.write_text("")
    again = StreamingDataset(streams=[Preparing(**place)], batch_size=4)
    assert numbers(pickle.loads(pickle.dumps(again))) == list(range(ROWS))  # noqa: S301  # made here
    assert notes.read_text() == ""


def test_stream_subclass_can_download_files(tmp_path: Path, remote: str, notes: Path) -> None:
    stream = Downloading(remote=remote, local=str(tmp_path / "local"), split="train")
    assert numbers(StreamingDataset(streams=[stream], batch_size=4)) == list(range(ROWS))
    lines = notes.read_text().splitlines()
    assert lines[0] == "download index.json"
    assert len(lines) == 1 + SHARDS
    for keeps in (False, True):
        local = tmp_path / f"own {keeps}"
        place = {"remote": f"own://{remote}", "local": str(local), "split": "train"}
        dataset = StreamingDataset(streams=[Copying(**place, keep_zip=keeps)], batch_size=4)
        assert numbers(dataset) == list(range(ROWS))
        infos = [(shard.raw_data, shard.zip_data) for shard in dataset.shards]
        names = {raw.basename for raw, _ in infos}
        names |= {packed.basename for _, packed in infos if packed and keeps}
        assert {path.name for path in (local / "train").glob("part-*")} == names


def test_file_is_downloaded_by_one_thread_at_a_time(tmp_path: Path, remote: str) -> None:
    barriers: dict[str, Barrier] = {}
    met = []

    class Meeting(Copying):
        """Records files downloaded by two threads at the same time."""

        def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
            barrier = barriers.setdefault(from_basename, Barrier(2))
            with suppress(BrokenBarrierError):
                barrier.wait(timeout=0.1)
                met.append(from_basename)
            return super()._download_file(from_basename, to_basename)

    def read(_: int) -> list[int]:
        stream = Meeting(remote=f"own://{remote}", local=str(tmp_path / "own"), split="train")
        return numbers(StreamingDataset(streams=[stream], batch_size=4))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(read, range(2))) == [list(range(ROWS))] * 2
    assert len(barriers) == 1 + SHARDS
    assert not met


def test_get_shards_returns_the_streams_shards(tmp_path: Path, remote: str) -> None:
    stream = Stream(remote=remote, local=str(tmp_path / "local"), split="train")
    shards = stream.get_shards(World.detect(), False)
    assert [shard.samples for shard in shards] == [10] * SHARDS
    assert stream.prepare_shard(shards[2]) == shards[2].raw_data.bytes
    assert (tmp_path / "local" / "train" / shards[2].raw_data.basename).exists()
    assert stream.prepare_shard(shards[2]) == 0


def test_stream_override_that_returns_no_shards_raises_error(remote: str, notes: Path) -> None:
    class Wrong(Stream):
        def get_shards(self, world: Any, allow_unsafe_types: bool) -> list[Any]:
            return ["shard.00000.mds"]

    with pytest.raises(ArgumentTypeError, match=r"Wrong\.get_shards must return shards"):
        StreamingDataset(streams=[Wrong(remote=remote, split="train")])


class Named(Stream):
    def __init__(self, **arguments: Any) -> None:
        inner = [*dir(StreamFiles(())), "options", "dataset", "files", "open", "shape"]
        for name in inner:
            if not name.startswith("__") and not hasattr(Stream, name):
                setattr(self, name, name)
        super().__init__(**arguments)


def test_stream_subclass_may_set_attributes_of_any_name(remote: str) -> None:
    stream = Named(remote=remote, split="train")
    assert stream.options == "options"  # type: ignore[attr-defined]
    dataset = StreamingDataset(streams=[stream], batch_size=4)
    assert numbers(pickle.loads(pickle.dumps(dataset))) == list(range(ROWS))  # noqa: S301  # made here


def test_registered_stream_kinds_are_found_by_name(remote: str, notes: Path) -> None:
    streams_registry.register("every_other", func=EveryOther)
    assert "stream" in streams_registry
    assert streams_registry.get("stream") is Stream
    assert streams_registry.get_all().keys() >= {"stream", "every_other"}
    arguments = {"remote": remote, "split": "train", "batch_size": 4}
    dataset = StreamingDataset(**arguments, stream_name="every_other")
    assert isinstance(dataset.streams[0], EveryOther)
    assert len(dataset) == ROWS // 2
    with pytest.raises(InvalidArgumentError, match=r"is not registered: register it with"):
        StreamingDataset(**arguments, stream_name="none")


def test_world_has_the_position_of_a_worker_and_the_counts_of_all() -> None:
    world = World(num_nodes=2, ranks_per_node=2, workers_per_rank=3, worker=8)
    assert world.to_json() == {
        **{"num_nodes": 2, "ranks_per_node": 2, "workers_per_rank": 3, "worker": 8},
        **{"workers_per_node": 6, "num_ranks": 4, "num_workers": 12},
        **{"node": 1, "worker_of_node": 2, "rank": 2, "worker_of_rank": 2, "rank_of_node": 0},
        **{"is_multinode": True, "is_leader": False, "is_local_leader": False},
    }
    assert World(2, 2, 3, 0).is_leader
    assert World(2, 2, 3, 6).is_local_leader
    assert not World(1, 2, 3, 0).is_multinode
