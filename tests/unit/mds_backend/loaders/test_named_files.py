"""``files=`` of a `StreamingDataset`: contents in samples, batches, workers and states."""

import pickle
import threading
from collections import Counter
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from tests.kit.recorded_requests import record_requests
from tests.kit.small_datasets import write_dataset
from torch.utils.data import DataLoader

from mdstorm_backend import (
    ExactOrder,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.errors import (
    CredentialsError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
)
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import make_tf_dataset
from mdstorm_backend.storage import NamedFiles

ROWS = 90
FILES: dict[str, Any] = {"files": {"image": "path"}}


def content(number: int) -> bytes:
    return b"content of %d" % number


def write(folder: Path, rows: int = ROWS, missing: tuple[int, ...] = ()) -> str:
    """Write a dataset of numbers and paths, and the files in one of its directories."""
    columns = {"number": range(rows), "path": [f"files/{number}" for number in range(rows)]}
    write_dataset(folder, columns, {"number": "long", "path": "string"}, shard_size=1_200)
    (folder / "files").mkdir()
    for number in set(range(rows)) - set(missing):
        (folder / f"files/{number}").write_bytes(content(number))
    return str(folder)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("files") / "data")


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


def pairs_in(batches: Any) -> list[tuple[int, Any]]:
    return [p for b in batches for p in zip(b["number"].tolist(), b["image"], strict=True)]


CHOICES: list[dict[str, Any]] = [
    {},
    {"shuffle": True},
    {"order": ExactOrder(3, True, True)},
    {"order": ExactOrder(3, window=40), "rows": slice(10, 80, 3)},
    {"rows": [70, 5, 70]},
    {"shuffle": True, "where": [("number", ">", 60)]},
    {"columns": ["number", "image"]},
    {"columns": ["number"], "row_numbers": "row", "order": ExactOrder(3, shuffle_rows=True)},
    {"workers": 0},
]


@pytest.mark.matrix
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_batches_and_samples_have_contents(
    local: str, choice: dict[str, Any], workers: int
) -> None:
    dataset = StreamingDataset(local=local, batch_size=7, **FILES, **choice)
    fork = {"multiprocessing_context": "fork"} if workers else {}
    loader = StreamingDataLoader(dataset, batch_size=7, num_workers=workers, **fork)
    trace, batches = loader.trace(), [*loader]
    pairs = pairs_in(batches)
    assert all(image == content(number) for number, image in pairs)
    assert trace.rows(slice(None)).tolist() == [number for number, _ in pairs]
    assert all(("path" in batch) == ("columns" not in choice) for batch in batches)
    if not workers:
        assert all(sample["image"] == content(sample["number"]) for sample in dataset)
    sample = copied(dataset)[-2]
    assert sample["image"] == content(sample["number"])


@pytest.mark.parametrize("order", [None, ExactOrder(2, True, True)])
def test_state_resumes_with_contents_in_another_world(local: str, order: Any) -> None:
    def loader(rank: int, ranks: int) -> Any:
        given = {"batch_size": 6, "order": order, "world": (rank, ranks), **FILES}
        return StreamingDataLoader(StreamingDataset(local=local, **given), batch_size=6)

    two = [loader(rank, 2) for rank in range(2)]
    seen = [pair for one in two for pair in pairs_in(islice(one, 5))]
    state = two[0].state_dict()
    for rank in range(4):
        one = loader(rank, 4)
        one.load_state_dict(state)
        seen += pairs_in(one)
    counted = Counter(number for number, _ in seen)
    assert set(counted) == set(range(ROWS))
    assert order is None or set(counted.values()) == {1}
    assert all(image == content(number) for number, image in seen)


def test_skipped_batches_are_not_read(local: str, requests: list[str]) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=local, batch_size=5, **FILES), batch_size=5)
    loader.load_state_dict(loader.state_dict(), skip_batches=12)
    assert pairs_in(loader) == [(number, content(number)) for number in range(60, ROWS)]
    assert sorted(requests) == sorted(f"files/{number}" for number in range(60, ROWS))


@pytest.mark.parametrize("workers", [0, 2])
def test_files_of_single_samples_are_read_ahead(
    local: str, requests: list[str], workers: int
) -> None:
    dataset = StreamingDataset(local=local, order=ExactOrder(3, True, True), **FILES)
    samples = iter(dataset)
    first = next(samples)
    assert first["image"] == content(first["number"])
    assert len(requests) > 60
    fork = {"multiprocessing_context": "fork"} if workers else {}
    batches = [*DataLoader(copied(dataset), batch_size=8, num_workers=workers, **fork)]
    pairs = pairs_in(batches)
    assert Counter(pairs) == Counter((number, content(number)) for number in range(ROWS))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are read."""
    return record_requests(monkeypatch)


def test_missing_files_are_requested_once_and_keep_positions(
    tmp_path: Path, requests: list[str]
) -> None:
    local = write(tmp_path / "data", missing=(4, 50, 51))
    given = {"batch_size": 5, "on_corrupt": "skip", **FILES}
    loader = StreamingDataLoader(StreamingDataset(local=local, **given), batch_size=5)
    batches = [*loader]
    assert [len(batch["number"]) for batch in batches] == [4, *[5] * 9, 3, *[5] * 7]
    assert [n for n, _ in pairs_in(batches)] == sorted({*range(ROWS)} - {4, 50, 51})
    assert loader.statistics().skipped == 3
    assert Counter(requests) == Counter(f"files/{number}" for number in range(ROWS))
    strict = StreamingDataset(local=local, batch_size=5, **FILES)
    with pytest.raises(MissingFileError, match=r"column 'image' of sample 4 of .*/files/4 does"):
        list(StreamingDataLoader(strict, batch_size=5))
    with pytest.raises(MissingFileError, match="sample 50 of"):
        StreamingDataset(local=local, **given)[50]


def test_rows_with_the_same_missing_file_are_each_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_dataset(tmp_path, {"path": ["a", "a", "b"]}, {"path": "string"})
    (tmp_path / "b").write_bytes(b"1")
    dataset = StreamingDataset(local=str(tmp_path), batch_size=3, on_corrupt="skip", **FILES)
    (batch,) = StreamingDataLoader(dataset, batch_size=3)
    assert batch["image"] == [b"1"]
    found = [record.getMessage() for record in caplog.records]
    assert [message.count("column 'image' of sample") for message in found] == [1, 1]


def test_damaged_shard_leaves_the_images_of_other_shards(tmp_path: Path) -> None:
    local = write(tmp_path / "data")
    image = BytesIO()
    Image.new("RGB", (2, 2)).save(image, "png")
    for number in range(ROWS):
        (tmp_path / f"data/files/{number}").write_bytes(image.getvalue())
    first = open_dataset(local).shard_sizes[0]
    shard = min((tmp_path / "data").glob("*.mds"))
    shard.write_bytes(shard.read_bytes()[:-9])
    given = {"batch_size": ROWS, "on_corrupt": "skip", "decode": "image", **FILES}
    (batch,) = StreamingDataLoader(StreamingDataset(local=local, **given), batch_size=ROWS)
    assert batch["number"].tolist() == [*range(first, ROWS)]
    assert batch["image"].shape == (ROWS - first, 2, 2, 3)


@pytest.mark.parametrize("error", [CredentialsError, StorageError, InvalidArgumentError])
def test_other_errors_are_not_skipped(
    local: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    read = NamedFiles.read

    def failing(files: NamedFiles, path: str) -> bytes:
        if path == "files/17":
            raise error(f"{path} fails")
        return read(files, path)

    monkeypatch.setattr(NamedFiles, "read", failing)
    dataset = StreamingDataset(local=local, batch_size=5, on_corrupt="skip", **FILES)
    with pytest.raises(error, match=r"'image' of sample 17 of .* column 'path': files/17 fails"):
        list(StreamingDataLoader(dataset, batch_size=5))


def test_same_path_is_requested_once_in_a_batch(tmp_path: Path, requests: list[str]) -> None:
    columns = {"path": ["a", "b", "a", None, "a", "b"]}
    write_dataset(tmp_path, columns, {"path": "string"})
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"")
    dataset = open_dataset(str(tmp_path), files={"x": "path", "y": "path"})
    (batch,) = dataset.batches(10, format="arrow")
    assert batch["x"].to_pylist() == batch["y"].to_pylist() == [b"1", b"", b"1", None, b"1", b""]
    assert batch.schema.field("x").type == pa.binary()
    assert sorted(requests) == ["a", "b"]
    assert dataset[3] == {"path": None, "x": None, "y": None}
    assert dataset.to_table(["x"])["x"].to_pylist() == batch["x"].to_pylist()


def test_tensorflow_dataset_has_contents(local: str) -> None:
    options = ReaderOptions(open_dataset(local, **FILES), ExactOrder(3, True).resolved())
    pairs = pairs_in(
        {"number": batch.number.numpy(), "image": batch.image.numpy().tolist()}
        for batch in make_tf_dataset(lambda: options, batch_size=8)
    )
    assert Counter(pairs) == Counter((number, content(number)) for number in range(ROWS))


def test_streams_read_files_below_the_given_directories(tmp_path: Path, local: str) -> None:
    paths = [f"{local}/files/{number}" for number in range(5)]
    columns = {"number": range(5), "path": paths}
    for name in ("a", "b"):
        write_dataset(tmp_path / name, columns, {"number": "long", "path": "string"})
    streams = [Stream(local=str(tmp_path / name)) for name in ("a", "b")]
    dataset = StreamingDataset(streams=streams, batch_size=4, files_below=[local], **FILES)
    pairs = pairs_in(StreamingDataLoader(dataset, batch_size=4))
    assert sorted(pairs) == sorted((number, content(number)) for number in [*range(5)] * 2)


class Large(bytes):
    """Stands in for the content of a large file, and counts how many of them are in memory."""

    held = most = 0
    size = 100 << 20
    lock = threading.Lock()

    def __new__(cls) -> "Large":
        with cls.lock:
            cls.held += 1
            cls.most = max(cls.most, cls.held)
        return super().__new__(cls, b"x")

    def __len__(self) -> int:
        return self.size

    def __del__(self) -> None:
        with self.lock:
            Large.held -= 1


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset whose files all have 100 MiB, in effect."""
    monkeypatch.setattr(NamedFiles, "read", lambda files, path: Large())
    monkeypatch.setattr(Large, "most", 0)
    return write(tmp_path / "data")


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("options", [{}, {"window": 60}, {"shuffle_rows": True}], ids=str)
def test_large_files_wait_instead_of_filling_the_memory(
    large: str, batch_size: int, options: dict[str, Any]
) -> None:
    order = ExactOrder(1, **options)
    dataset = StreamingDataset(local=large, batch_size=batch_size, order=order, prefetch=2, **FILES)
    loader = StreamingDataLoader(dataset, batch_size=batch_size)
    assert sum(len(batch["number"]) for batch in loader) == ROWS
    assert Large.most <= 32 + 3 * batch_size  # until the size of a file is known


def test_batch_of_more_than_two_gib_raises_error(large: str) -> None:
    dataset = open_dataset(large, files={"image": "path"})
    with pytest.raises(InvalidArgumentError, match="more than 2 GiB in one batch"):
        list(dataset.batches(30))


def test_file_of_two_gb_is_refused_unread(tmp_path: Path) -> None:
    local = write(tmp_path / "data", 3)
    with (tmp_path / "data/files/1").open("wb") as file:
        file.truncate(2_000_000_000)
    dataset = open_dataset(local, files={"image": "path"})
    with pytest.raises(InvalidArgumentError, match=r"sample 1 of .*limit of 268435456.*raise"):
        dataset.to_table()
