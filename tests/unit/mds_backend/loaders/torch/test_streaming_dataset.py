"""The arguments and attributes of MosaicML Streaming's `StreamingDataset`."""

import inspect
import pickle
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.loaders import column
from tests.kit.small_datasets import write_dataset, write_numbers
from torch.utils.data import DataLoader

from mdstorm_backend import (
    ElasticOrder,
    ExactOrder,
    LocalDataset,
    MDSWriter,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
)
from mdstorm_backend.errors import (
    ArgumentTypeError,
    DatasetNotFoundError,
    InvalidArgumentError,
    StateMismatchError,
    UnsafeTypeError,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three datasets of 10, 20 and 30 numbers in one, two and three shards."""
    for number, rows in enumerate((10, 20, 30)):
        numbers = {"number": range(100 * number, 100 * number + rows)}
        write_dataset(tmp_path / str(number), numbers, {"number": "long"}, tasks=number + 1)
    return tmp_path


def streams(data: Path, *weights: dict[str, Any]) -> list[Stream]:
    given = weights or ({}, {}, {})
    return [Stream(local=str(data / str(n)), **weight) for n, weight in enumerate(given)]


def test_cache_limit_smaller_than_a_shard_raises_error_at_once(data: Path) -> None:
    here = str(data / "here")
    with pytest.raises(InvalidArgumentError, match=r"needs .* the limit is 100\. Raise"):
        StreamingDataset(remote=str(data / "0"), local=here, batch_size=2, cache_limit=100)


def test_arguments_and_defaults_match_mosaicml_streaming() -> None:
    found = {
        name: parameter.default
        for name, parameter in inspect.signature(StreamingDataset).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    expected = {
        **dict.fromkeys(("streams", "remote", "local", "split")),
        "download_retry": 2,
        "download_timeout": 60,
        "validate_hash": None,
        "keep_zip": False,
        **dict.fromkeys(("epoch_size", "predownload", "cache_limit")),
        "sampling_method": "balanced",
        "sampling_granularity": 1,
        "partition_algo": "relaxed",
        **dict.fromkeys(("num_canonical_nodes", "batch_size")),
        "shuffle": False,
        "shuffle_algo": "py1e",
        "shuffle_seed": 9176,
        "shuffle_block_size": None,
        "batching_method": "random",
        "allow_unsafe_types": False,
        "replication": None,
        "stream_name": "stream",
        "stream_config": None,
    }
    assert list(found)[: len(expected)] == list(expected)
    assert {name: found[name] for name in expected} == expected


def test_counts_and_offsets_cover_all_streams(data: Path) -> None:
    dataset = StreamingDataset(streams=streams(data), batch_size=4)
    assert (dataset.num_samples, dataset.size, dataset.epoch_size) == (60, 60, 60)
    assert (len(dataset), dataset.length) == (60, 60)
    assert (dataset.num_streams, dataset.num_shards, len(dataset.shards)) == (3, 6, 6)
    assert dataset.samples_per_shard.tolist() == [10] * 6
    assert dataset.sample_offset_per_shard.tolist() == [0, 10, 20, 30, 40, 50]
    assert dataset.samples_per_stream.tolist() == [10, 20, 30]
    assert dataset.sample_offset_per_stream.tolist() == [0, 10, 30]
    assert dataset.shards_per_stream.tolist() == [1, 2, 3]
    assert dataset.shard_offset_per_stream.tolist() == [0, 1, 3]
    assert dataset.stream_per_shard.tolist() == [0, 1, 1, 2, 2, 2]
    assert [dataset.spanner[i] for i in (0, 25, 59)] == [(0, 0), (2, 5), (5, 9)]
    assert dataset.next_epoch == 0


def test_derived_weights_do_not_change_reused_streams(data: Path) -> None:
    given = streams(data, {"proportion": 2}, {"proportion": 1}, {"proportion": 1})
    dataset = StreamingDataset(streams=given, epoch_size=40, batch_size=4)
    assert dataset.streams == given
    assert [stream.choose for stream in given] == [20, 10, 10]
    assert [stream.proportion for stream in given] == [0.5, 0.25, 0.25]
    assert [stream.repeat for stream in given] == [2.0, 0.5, 10 / 30]
    again = StreamingDataset(streams=given, epoch_size="0.08k", batch_size=4)
    assert (again.epoch_size, dataset.epoch_size) == (80, 40)
    assert [stream.choose for stream in given] == [40, 20, 20]
    assert len(list(dataset)) == 40


def test_weights_apply_with_an_explicit_order(data: Path) -> None:
    given = streams(data, {"choose": 3}, {"choose": 0}, {"repeat": 0.5})
    dataset = StreamingDataset(streams=given, order=ElasticOrder(batch_size=4))
    found = [sample["number"] // 100 for sample in dataset]
    assert [found.count(stream) for stream in range(3)] == [3, 0, 15]
    assert (dataset.epoch_size, given[2].choose) == (18, 15)
    with pytest.raises(InvalidArgumentError, match="has a weight, but the exact order"):
        StreamingDataset(streams=given, order=ExactOrder())


def test_stream_config_applies_to_the_only_stream(data: Path) -> None:
    dataset = StreamingDataset(
        local=str(data), split="1", stream_config={"repeat": 0.5}, batch_size=4
    )
    assert (dataset.epoch_size, dataset.num_samples) == (10, 20)


def test_batches_from_streams_with_different_columns_raise_error(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a", {"n": [1], "x": [0.5]}, {"n": "long", "x": "double"})
    write_dataset(tmp_path / "b", {"n": [2], "y": ["z"]}, {"n": "long", "y": "string"})
    both = [Stream(local=str(tmp_path / name)) for name in "ab"]
    assert list(StreamingDataset(streams=both)) == [{"n": 1, "x": 0.5}, {"n": 2, "y": "z"}]
    with pytest.raises(InvalidArgumentError, match=r"are missing in some of .*columns=\['n'\]"):
        next(iter(StreamingDataLoader(StreamingDataset(streams=both), batch_size=2)))
    common = StreamingDataset(streams=both, columns=["n"])
    assert column(StreamingDataLoader(common, batch_size=2), "n") == [[1, 2]]
    assert common[1] == {"n": 2}
    with pytest.raises(ArgumentTypeError, match=r"has no columns \['z'\]"):
        next(iter(StreamingDataLoader(StreamingDataset(streams=both, columns=["z"]))))


@pytest.mark.matrix
@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_remote_shards_are_downloaded_to_the_local_directory(
    tmp_path: Path, compression: str | None, num_workers: int
) -> None:
    write_numbers(tmp_path / "remote", 60, tasks=6, compression=compression)
    place = {"remote": str(tmp_path / "remote"), "local": str(tmp_path / "local")}
    dataset = StreamingDataset(**place, batch_size=8, shuffle=True)
    loader = StreamingDataLoader(dataset, 8, num_workers=num_workers)
    whole = column(StreamingDataLoader(StreamingDataset(**place, batch_size=8, shuffle=True), 8))
    assert column(loader) == whole
    files = [path for path in (tmp_path / "local").iterdir() if path.is_file()]
    assert len([path for path in files if path.suffix == ".mds"]) == 6
    assert dataset.cache_usage == sum(path.stat().st_size for path in files)
    assert StreamingDataset(local=str(tmp_path / "remote")).cache_usage == 0
    shard = pickle.loads(pickle.dumps(dataset.shards[-1]))  # noqa: S301  # made here
    vars(dataset).update(shards="a subclass's own", stream_per_shard="another")
    dataset.evict_shard(5)
    present = {path.name for path in (tmp_path / "local").iterdir()}
    assert {path.name for path in files} - present == {shard.raw_data.basename}
    assert shard[0]["number"] == dataset[-len(shard)]["number"]
    dataset.evict_shard(5)
    dataset.prepare_shard(5)
    assert {path.name for path in (tmp_path / "local").iterdir()} >= {p.name for p in files}
    assert not hasattr(dataset, "evict_coldest_shard")


def test_cache_limit_string_becomes_a_number_of_bytes(data: Path) -> None:
    dataset = StreamingDataset(streams=streams(data), cache_limit="10kb")
    assert dataset.cache_limit == 10240
    dataset.cache_limit = "1mb"
    assert dataset.cache_limit == 1 << 20
    assert StreamingDataset(streams=streams(data)).cache_limit is None


def test_prepare_shard_downloads_the_shard(data: Path, tmp_path: Path) -> None:
    local = tmp_path / "local"
    dataset = StreamingDataset(remote=str(data / "2"), local=str(local))
    dataset.prepare_shard(1)
    assert [path.name for path in local.glob("*.mds")] == [dataset.shards[1].raw_data.basename]
    with pytest.raises(IndexError):
        dataset.prepare_shard(3)


def test_stream_without_samples_is_skipped(tmp_path: Path) -> None:
    write_numbers(tmp_path / "none", 0)
    write_numbers(tmp_path / "some", 5)
    none, some = (Stream(local=str(tmp_path / name)) for name in ("none", "some"))
    dataset = StreamingDataset(streams=[none, some], batch_size=2)
    assert [sample["number"] for sample in dataset] == list(range(5))
    assert column(StreamingDataLoader(dataset, 2)) == [[0, 1], [2, 3], [4]]
    empty = StreamingDataLoader(StreamingDataset(streams=[none], batch_size=2), 2)
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert list(empty) == []
    assert len(empty) == 0


def test_state_with_different_weights_raises_error_within_an_epoch(data: Path) -> None:
    one, other = (
        StreamingDataset(streams=streams(data, {}, {"choose": n}, {}), batch_size=4) for n in (3, 4)
    )
    other.load_state_dict(one.state_dict(0, True))
    with pytest.raises(StateMismatchError, match="weights: "):
        other.load_state_dict({**one.state_dict(4, True), "epoch": 0})


ROWS = 40


@pytest.fixture(params=[None, "zstd"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    write_numbers(tmp_path / "data" / "train", ROWS, tasks=4, compression=request.param)
    return str(tmp_path / "data")


def numbers(samples: Any) -> Any:
    return [numbers(s) if isinstance(s, list) else int(s["number"]) for s in samples]


def test_local_dataset_returns_samples_by_number(directory: str) -> None:
    dataset = LocalDataset(directory, "train")
    assert (len(dataset), dataset.size, dataset.num_samples) == (ROWS, ROWS, ROWS)
    assert (dataset.local, dataset.split, len(dataset.shards)) == (directory, "train", 4)
    assert numbers(dataset[at] for at in (3, -1, np.int64(7))) == [3, 39, 7]
    assert numbers(dataset[5:20:5]) == [5, 10, 15]
    assert numbers(dataset[::-1]) == list(range(ROWS))[::-1]
    assert numbers(dataset[[[1, 2], [3]]]) == [[1, 2], [3]]
    assert numbers(dataset[np.array([4, -1])]) == [4, 39]
    assert dataset.spanner[25] == (2, 5)
    assert numbers(iter(dataset)) == list(range(ROWS))
    for at in (ROWS, -ROWS - 1):
        with pytest.raises(IndexError, match=f"sample {at} of 40"):
            dataset[at]
    with pytest.raises(InvalidArgumentError, match="cannot be indexed by 'number'"):
        dataset["number"]


def test_missing_local_dataset_or_one_with_pickles_raises_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="there is no dataset"):
        LocalDataset(str(tmp_path / "none"))
    with MDSWriter(columns={"x": "pkl"}, out=str(tmp_path / "pickles")) as writer:
        writer.write({"x": [1]})
    with pytest.raises(UnsafeTypeError):
        LocalDataset(str(tmp_path / "pickles"))[0]
    assert LocalDataset(str(tmp_path / "pickles"), allow_unsafe_types=True)[0] == {"x": [1]}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [DataLoader, StreamingDataLoader])
def test_times_of_local_dataset_are_collated_as_in_whole_batches(
    tmp_path: Path, kind: Any, workers: int
) -> None:
    times = pa.array([0, 1], pa.timestamp("us"))
    with MDSWriter(out=str(tmp_path)) as writer:
        writer.write_batch(pa.table({"time": times, "day": times.cast(pa.date32())}))
    batches = [
        next(iter(kind(LocalDataset(str(tmp_path)), batch_size=2, num_workers=workers))),
        next(iter(StreamingDataLoader(StreamingDataset(local=str(tmp_path)), batch_size=2))),
    ]
    for batch in batches:
        assert batch["time"].tolist() == [0, 1000]
        assert batch["day"] == [date(1970, 1, 1)] * 2
