"""With `on_corrupt="skip"`, damaged shards, samples and images are left out of batches."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import read_all
from tests.kit.small_datasets import write_dataset
from torch.utils.data import DataLoader

from mdstorm_backend import ElasticOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.order import ExactOrder

ROWS, SHARDS = 80, 8
COLUMNS = {"n": range(ROWS), "text": [f"text {n}" * (n % 3) for n in range(ROWS)]}
FIELDS: Any = {"n": "long", "text": "string"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Eight shards of ten rows each, with the fourth shard truncated."""
    write_dataset(tmp_path / "data", COLUMNS, FIELDS, tasks=SHARDS)
    shard = sorted((tmp_path / "data").rglob("*.mds"))[3]
    shard.write_bytes(shard.read_bytes()[:40])
    return tmp_path / "data"


DAMAGED = set(range(30, 40))


def loader(directory: Path, rows: int = 10, **options: Any) -> StreamingDataLoader:
    order = options.pop("order", ExactOrder())
    dataset = StreamingDataset(local=str(directory), order=order, **options)
    return StreamingDataLoader(dataset, batch_size=rows)


def numbers(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def test_damaged_shard_raises_error_by_default(directory: Path) -> None:
    with pytest.raises(CorruptDatasetError):
        list(loader(directory))
    with pytest.raises(InvalidArgumentError, match="on_corrupt"):
        loader(directory, on_corrupt="ignore")


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_shard_is_skipped_counted_and_logged_once(
    directory: Path, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = loader(directory, on_corrupt="skip", workers=workers, num_epochs=2)
    found = numbers(made)
    rest = [[n for n in range(start, start + 10) if n not in DAMAGED] for start in range(0, 80, 10)]
    assert found == rest * 2
    assert found[3] == []
    assert made.statistics().skipped == 20
    assert "20 samples skipped" in str(made.statistics())
    logged = [r.getMessage() for r in caplog.records if "skipped" in r.getMessage()]
    assert len(logged) == 1
    assert ".mds" in logged[0]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    "order", [None, ExactOrder(seed=3, shuffle_shards=True, shuffle_rows=True)]
)
def test_ranks_have_the_same_number_of_batches_without_damaged_samples(
    directory: Path, order: Any, drop_last: bool
) -> None:
    found: list[int] = []
    lengths = []
    for rank in range(2):
        dataset = StreamingDataset(
            local=str(directory), order=order, batch_size=3, world=(rank, 2), on_corrupt="skip"
        )
        batches = numbers(StreamingDataLoader(dataset, batch_size=3, drop_last=drop_last))
        lengths.append(len(batches))
        found += [n for batch in batches for n in batch]
    assert lengths == [13 if drop_last else 14] * 2
    assert not DAMAGED & set(found)
    if not drop_last:
        assert set(found) == set(range(ROWS)) - DAMAGED
        assert order is None or len(found) == ROWS - len(DAMAGED)


def drop_schema(directory: Path) -> None:
    """Remove mdstorm's schema from the index, as if MosaicML Streaming had written the index."""
    index = json.loads((directory / "index.json").read_text())
    del index["mdstorm"]
    (directory / "index.json").write_text(json.dumps(index))


@pytest.mark.matrix
@pytest.mark.parametrize("kept_bytes", [0, 40])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_damaged_first_shard_without_schema_in_index_is_skipped(
    compression: str | None, kept_bytes: int, tmp_path: Path
) -> None:
    write_dataset(tmp_path, COLUMNS, FIELDS, tasks=SHARDS, compression=compression)
    drop_schema(tmp_path)
    for shard in sorted(tmp_path.rglob("*.mds*"))[:2]:
        shard.write_bytes(shard.read_bytes()[:kept_bytes])
    found = []
    for rank in range(2):
        dataset = StreamingDataset(
            local=str(tmp_path), order=ExactOrder(), world=(rank, 2), on_corrupt="skip"
        )
        made = StreamingDataLoader(dataset, batch_size=4, num_workers=1)
        found.append(numbers(made))
        assert made.statistics().skipped == (20 if rank == 0 else 0)
    assert [len(batches) for batches in found] == [10, 10]
    assert [n for batches in found for batch in batches for n in batch] == list(range(20, ROWS))


@pytest.mark.parametrize(
    ("damage", "on_corrupt", "error", "text"),
    [
        (lambda shard: shard.write_bytes(b""), "raise", CorruptDatasetError, "holds 0 bytes"),
        (Path.unlink, "skip", DatasetNotFoundError, "is gone"),
    ],
    ids=["damaged", "missing"],
)
def test_unreadable_first_shard_without_schema_in_index_raises_error_when_it_is_read(
    damage: Callable[[Path], object],
    on_corrupt: str,
    error: type[Exception],
    text: str,
    tmp_path: Path,
) -> None:
    write_dataset(tmp_path, COLUMNS, FIELDS, tasks=SHARDS)
    drop_schema(tmp_path)
    first = min(tmp_path.rglob("*.mds"))
    damage(first)
    dataset = StreamingDataset(local=str(tmp_path), order=ExactOrder(), on_corrupt=on_corrupt)
    assert dataset[10]["n"] == 10
    with pytest.raises(error, match=f"{first.name} {text}"):
        list(StreamingDataLoader(dataset, batch_size=4))


def test_missing_shards_without_schema_in_index_raise_error_naming_first_shard(
    tmp_path: Path,
) -> None:
    write_dataset(tmp_path, COLUMNS, FIELDS, tasks=2)
    drop_schema(tmp_path)
    shards = sorted(tmp_path.rglob("*.mds"))
    for shard in shards:
        shard.unlink()
    with pytest.raises(DatasetNotFoundError, match=f"{shards[0].name} is gone"):
        list(loader(tmp_path))


def test_many_damaged_shards_without_schema_in_index_raise_error_naming_first(
    tmp_path: Path,
) -> None:
    write_dataset(tmp_path, COLUMNS, FIELDS, tasks=10)
    drop_schema(tmp_path)
    damaged = sorted(tmp_path.rglob("*.mds"))[:9]
    for shard in damaged:
        shard.write_bytes(b"")
    with pytest.raises(CorruptDatasetError, match=f"{damaged[0].name} holds 0 bytes"):
        list(loader(tmp_path, on_corrupt="skip"))


class Same:
    """A transform that keeps all rows."""

    columns, keeps_rows = ("n",), True

    def __call__(self, batch: Any) -> Any:
        return {"n": batch["n"]}


@pytest.mark.parametrize("transform", [None, Same()], ids=["plain", "transform"])
def test_iterating_over_samples_raises_error_for_damaged_shard(
    directory: Path, transform: Any
) -> None:
    """PyTorch counts the samples itself, so skipped samples would be missing from its count."""
    dataset = StreamingDataset(local=str(directory), transform=transform, on_corrupt="skip")
    for samples in (dataset, DataLoader(dataset, num_workers=1)):
        with pytest.raises(CorruptDatasetError):
            read_all(samples)
    with pytest.raises(CorruptDatasetError):
        dataset[35]


def test_only_the_damaged_sample_in_a_shard_is_skipped(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path), columns={"n": "int", "array": "ndarray:int32"}) as writer:
        for n in range(20):
            writer.write({"n": n, "array": np.arange(n % 3 + 1, dtype=np.int32)})
    (path,) = tmp_path.glob("*.mds")
    content = bytearray(path.read_bytes())
    sample = int(np.frombuffer(content, np.uint32, 1, 4 + 4 * 7)[0])
    content[sample : sample + 4] = (1 << 30).to_bytes(4, "little")  # the array size
    path.write_bytes(content)
    with pytest.raises(CorruptDatasetError):
        list(loader(tmp_path))
    made = loader(tmp_path, on_corrupt="skip")
    assert numbers(made) == [[0, 1, 2, 3, 4, 5, 6, 8, 9], list(range(10, 20))]
    assert made.statistics().skipped == 1


def test_only_the_damaged_image_is_skipped_and_a_function_is_called_once(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    with MDSWriter(out=str(tmp_path), columns={"n": "int", "image": "bytes"}) as writer:
        for n in range(6):
            writer.write({"n": n, "image": b"nothing" if n == 4 else file.getvalue()})
    calls: list[int] = []

    class PassesImagesThrough:
        columns, unchanged = ("n", "image"), frozenset(["n", "image"])

        def __call__(self, batch: Any) -> Any:
            calls.extend(batch["n"].tolist())
            return batch

    for transform in (None, PassesImagesThrough()):
        order = ElasticOrder(3)
        options = {"on_corrupt": "skip", "decode": "image", "size": 4, "transform": transform}
        made = loader(tmp_path, 3, order=order, workers=0, **options)
        batches = [(batch["n"].tolist(), tuple(batch["image"].shape)) for batch in made]
        assert batches == [([0, 1, 2], (3, 4, 4, 3)), ([3, 5], (2, 4, 4, 3))]
        assert made.statistics().skipped == 1
    assert calls == list(range(6))


def test_worker_processes_skip_and_count_damaged_samples(directory: Path) -> None:
    dataset = StreamingDataset(local=str(directory), order=ExactOrder(), on_corrupt="skip")
    made = StreamingDataLoader(dataset, batch_size=8, num_workers=2)
    found = [n for batch in numbers(made) for n in batch]
    assert found == [n for n in range(ROWS) if n not in DAMAGED]
    assert made.statistics().skipped == 10
