"""The first batch does not wait for what only later batches need, whatever reads and decodes it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.kit.small_datasets import write_dataset

from mdstorm import make_batch_reader, make_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.storage import NamedFiles

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")
ROWS, BATCH = 15, 5
FILES: dict[str, Any] = {"files": {"image": "path"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in MDS and in Parquet, with one file for each."""
    folder = tmp_path_factory.mktemp("first")
    paths = [f"{folder}/files/{number}.png" for number in range(ROWS)]
    columns = {"number": [*range(ROWS)], "path": paths}
    write_dataset(folder / "mds", columns, {"number": "long", "path": "string"})
    (folder / "parquet").mkdir()
    pq.write_table(pa.table(columns), folder / "parquet/a.parquet", row_group_size=BATCH)
    (folder / "files").mkdir()
    for number in range(ROWS):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(folder / f"files/{number}.png")
    return folder


def streaming(folder: Path, **options: Any) -> Iterator[Any]:
    local = str(folder / "mds")
    dataset = StreamingDataset(local=local, batch_size=BATCH, order=ExactOrder(), **options)
    return iter(StreamingDataLoader(dataset, batch_size=BATCH))


def samples(folder: Path, **options: Any) -> Iterator[Any]:
    local = str(folder / "mds")
    return iter(StreamingDataset(local=local, batch_size=BATCH, order=ExactOrder(), **options))


def converted(method: str) -> Callable[..., Iterator[Any]]:
    def batches(folder: Path, **options: Any) -> Iterator[Any]:
        dataset = open_dataset(folder / "mds")
        converter = SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)
        with getattr(converter, method)(BATCH, num_epochs=1, **options) as loader:
            yield from loader

    return batches


def read(make: Any, over: Any = None) -> Callable[..., Iterator[Any]]:
    def items(folder: Path, **options: Any) -> Iterator[Any]:
        url = (folder / "parquet").as_uri()
        options |= {"num_epochs": 1, "shuffle_row_groups": False, "schema_fields": ["number"]}
        with make(url, **options) as reader:
            yield from reader if over is None else over(reader, BATCH)

    return items


LOADERS = {
    "StreamingDataLoader": streaming,
    "samples": samples,
    "make_torch_dataloader": converted("make_torch_dataloader"),
    "make_tf_dataset": converted("make_tf_dataset"),
    "make_reader": read(make_reader),
    "make_batch_reader": read(make_batch_reader),
    "DataLoader": read(make_batch_reader, DataLoader),
    "BatchedDataLoader": read(make_batch_reader, BatchedDataLoader),
}
#: Those whose batches may have files that are not decoded.
PLAIN = [name for name in LOADERS if name != "BatchedDataLoader"]


@contextmanager
def later_files_after(event: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the files of all batches but the first wait for an event."""
    original = NamedFiles.read

    def late(files: NamedFiles, path: str) -> bytes:
        if int(Path(path).stem) >= BATCH:
            assert event.wait(60), "the first batch waits for these files"
        return original(files, path)

    with monkeypatch.context() as patched:
        patched.setattr(NamedFiles, "read", late)
        yield


@pytest.mark.parametrize(
    ("name", "decode"), [*product(LOADERS, ["image"]), *product(PLAIN, [None])]
)
def test_first_batch_does_not_wait_for_files_of_later_batches(
    name: str, decode: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**FILES, "files_below": [str(folder / "files")]}
    if decode is not None:
        options["decode"] = decode
    is_first_used = threading.Event()
    with later_files_after(is_first_used, monkeypatch):
        batches = LOADERS[name](folder, **options)
        next(batches)
        is_first_used.set()
        assert list(batches)
