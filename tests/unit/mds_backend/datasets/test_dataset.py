import gc
import os
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.small_datasets import (
    array_of,
    struct_of,
    write_dataset,
    write_ints,
    write_numbers,
)

from mdstorm_backend import Dataset, ExactOrder, open_dataset
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.display import human_bytes
from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    DatasetChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
)
from mdstorm_backend.format.index import Index

MIXED: dict[str, tuple[Any, list[Any]]] = {
    "word": ("string", ["a", None, "c"]),
    "number": ("long", [1, 2, None]),
    "ratio": ("double", [0.5, None, 2.5]),
    "pair": (array_of("integer"), [[1, 2], [3, 4], [5, 6]]),
    "list": (array_of("integer"), [[], [1], None]),
    "thing": (struct_of(a="long"), [{"a": 1}, None, {"a": None}]),
}
FIELDS = {name: type_ for name, (type_, _) in MIXED.items()}
ROWS = {name: values for name, (_, values) in MIXED.items()}
MEAN = 100_000


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return write_dataset(tmp_path / "mixed", ROWS, FIELDS, shard_size=1)


@pytest.fixture
def numbers(tmp_path: Path) -> Dataset:
    """A thousand numbers spread over many shards."""
    dataset = write_numbers(tmp_path / "numbers", 1000)
    assert len(dataset.index.shards) > 6
    return dataset


def test_missing_dataset_raises_error_with_url(numbers: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"no dataset at .*: it has no index\.json") as e:
        open_dataset(str(tmp_path / "missing"))
    for kind in (FileNotFoundError, RuntimeError, MDStormError):
        assert isinstance(e.value, kind)
    assert e.value.url == f"file://{tmp_path}/missing"
    assert "write it again" in str(e.value)
    gone = Path(numbers.location.path, numbers.index.shards[2].raw_data.basename)
    gone.unlink()
    assert open_dataset(numbers.url)[0] == {"number": 0}
    with pytest.raises(DatasetNotFoundError, match="is gone, but the index lists it") as e:
        open_dataset(numbers.url).to_table()
    assert e.value.url == f"file://{gone}"


def test_sample_is_found_by_number(dataset: Dataset) -> None:
    assert list(dataset[0]) == list(FIELDS)
    for name, expected in ROWS.items():
        found = [dataset[i][name] for i in (0, 1, 2, -1, -3)]
        plain = [value.tolist() if isinstance(value, np.ndarray) else value for value in found]
        assert plain == [*expected, expected[2], expected[0]]


@pytest.mark.parametrize("i", [3, -4, 1000])
def test_sample_number_beyond_the_end_raises_index_error(dataset: Dataset, i: int) -> None:
    with pytest.raises(IndexError, match=f"sample {i} of 3"):
        dataset[i]


def test_shard_sizes_bytes_and_file_urls_match_the_dataset_files(numbers: Dataset) -> None:
    files = [Path(url.removeprefix("file://")) for url in numbers.file_urls]
    assert sum(numbers.shard_sizes) == len(numbers) == 1000
    assert numbers.nbytes == sum(file.stat().st_size for file in files)
    assert files == sorted(files)
    assert repr(numbers) == (
        f"Dataset({numbers.url!r}, 1,000 rows, {len(files)} shards, {human_bytes(numbers.nbytes)})"
    )


def test_fingerprints_of_different_datasets_differ(tmp_path: Path) -> None:
    first = write_numbers(tmp_path / "a", 10)
    assert write_numbers(tmp_path / "b", 10).fingerprint == first.fingerprint
    assert write_numbers(tmp_path / "c", 11).fingerprint != first.fingerprint
    assert open_dataset(first.url).fingerprint == first.fingerprint


def test_rows_do_not_depend_on_batch_size(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["word", "number", "ratio", "pair", "list"]
    table, frame = dataset.to_table(columns), dataset.to_pandas(columns)
    sizes = []
    batches_of = Dataset.batches_of

    def counted(self: Dataset, rows: Any, batch_size: int, *columns: Any, **options: Any) -> Any:
        sizes.append(batch_size)
        return batches_of(self, rows, batch_size, *columns, **options)

    monkeypatch.setattr(Dataset, "batches_of", counted)
    monkeypatch.setattr("mdstorm_backend.datasets.sample_dataset.LARGE_BATCH", 1)
    assert dataset.to_table(columns).equals(table)
    cut = dataset.to_pandas(columns)
    assert sizes == [1, 1]
    assert cut.dtypes.equals(frame.dtypes)
    assert cut.index.equals(frame.index)
    assert repr(cut.to_dict("list")) == repr(frame.to_dict("list"))


def test_repeated_columns_or_single_string_raise_error(dataset: Dataset) -> None:
    with pytest.raises(ArgumentTypeError, match=r"'word' is a string: pass a list, \['word'\]"):
        dataset.to_table("word")
    with pytest.raises(ArgumentTypeError, match="lists a column twice"):
        dataset.to_table(["word", "number", "word"])


@pytest.mark.parametrize("schema", ["indexed", "lost"])
def test_damaged_cached_copy_is_downloaded_again(
    schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    written = write_dataset(
        tmp_path / "data", {"number": [4, 5]}, {"number": "long"}, compression="zstd"
    )

    def opened() -> Dataset:
        return open_dataset(written.url) if schema == "indexed" else without_schema(written)

    assert opened()[1] == {"number": 5}
    (copy,) = (tmp_path / "cache").rglob("*.mds")
    with copy.open("r+b") as file:
        file.write(b"\xff\xff\xff\xff")
    assert opened()[1] == {"number": 5}
    assert copy.read_bytes()[:4] != b"\xff\xff\xff\xff"


@pytest.mark.parametrize("act", ["smaller", "only its time", "gone"])
def test_replaced_dataset_raises_error_that_says_what_changed(act: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"size_limit": 1000, "exist_ok": True}
    write_ints(tmp_path, range(500), **options)
    dataset = open_dataset(str(tmp_path))
    assert dataset[0]["n"] == 0
    write_ints(tmp_path, range(10) if act == "gone" else range(500, 1000), **options)
    if act == "smaller":
        write_ints(tmp_path, range(500), **{**options, "size_limit": 900})
    expected = {
        "smaller": (
            DatasetChangedError,
            r"it had [\d,]+ bytes, and now has [\d,]+\).*Open the dataset",
        ),
        "only its time": (DatasetChangedError, "only its modification time differs: it was .* UTC"),
        "gone": (DatasetNotFoundError, "was replaced after it was opened"),
    }
    error, message = expected[act]
    with pytest.raises(error, match=message):
        dataset[499]


def test_reading_an_empty_dataset_warns_and_returns_its_columns(tmp_path: Path) -> None:
    empty = write_dataset(tmp_path, {name: [] for name in FIELDS}, FIELDS)
    with pytest.warns(UserWarning, match="No matching data is available"):
        table = empty.to_table()
    assert (table.schema.names, len(table)) == (list(FIELDS), 0)
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert list(empty.to_pandas().columns) == list(FIELDS)
    with pytest.raises(IndexError):
        empty[0]


@pytest.mark.parametrize("num_epochs", [0, -1, 1.5, "2", True])
def test_num_epochs_must_be_positive_integer_or_none(dataset: Dataset, num_epochs: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="positive integer or None"):
        dataset.batches(1, num_epochs=num_epochs)


def test_dataset_can_be_pickled_before_and_after_reading(numbers: Dataset) -> None:
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(numbers))  # noqa: S301 - our own bytes
        assert (copy.url, copy.fingerprint) == (numbers.url, numbers.fingerprint)
        assert copy[999] == {"number": 999}
        numbers.to_table()


def test_dataset_can_be_shared_by_threads(numbers: Dataset) -> None:
    def read(seed: int) -> list[int]:
        order = ExactOrder(seed=seed, shuffle_shards=True, shuffle_rows=True)
        return sorted(n for b in numbers.batches(37, order=order) for n in b["number"].tolist())

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(1, 17)))
    assert found == [list(range(1000))] * 16


def test_number_of_open_shards_is_limited(tmp_path: Path) -> None:
    numbers = write_numbers(tmp_path, 200, shard_size=1)
    before = len(os.listdir("/dev/fd"))
    list(numbers.batches(1))
    assert len(os.listdir("/dev/fd")) - before < 20


def without_schema(dataset: Dataset) -> Dataset:
    """A dataset whose index was written by another program and contains no schema."""
    return Dataset(dataset.location, Index(dataset.index.shards, {}))


def test_schema_missing_from_index_is_read_from_shards(tmp_path: Path) -> None:
    fields = {"b": "boolean", "a": array_of("date")}
    values = {"b": [True, False], "a": [[date(2024, 5, 6)], [date(1999, 1, 2)]]}
    dataset = write_dataset(tmp_path, values, fields)
    lost = without_schema(dataset)
    assert lost.schema == dataset.schema
    assert lost.to_table().to_pydict() == values


def test_nulls_without_schema_are_nan_in_float_columns_and_raise_error_in_others(
    tmp_path: Path,
) -> None:
    values = {"n": [1, None], "x": [0.5, None]}
    dataset = without_schema(write_dataset(tmp_path / "a", values, {"n": "long", "x": "double"}))
    with pytest.raises(CorruptDatasetError, match=r"holds nulls in \['n', 'x'\].*reindex"):
        dataset.to_table()
    dataset = without_schema(write_dataset(tmp_path / "b", {"x": values["x"]}, {"x": "double"}))
    (batch,) = dataset.batches(2)
    assert repr(batch["x"].tolist()) == "[0.5, nan]"


@pytest.mark.parametrize(("limit", "kept"), [(None, 6), (10**6, 4)])
def test_limited_cache_keeps_few_mapped_shards_open(
    limit: int | None, kept: int, tmp_path: Path
) -> None:
    values = {"x": [bytes(100_000)] * 6}
    write_dataset(tmp_path, values, {"x": "binary"}, shard_size=150_000)
    dataset = open_dataset(str(tmp_path), cache=CacheOptions(limit=limit))
    references = [weakref.ref(dataset.shard(number)) for number in range(6)]
    gc.collect()
    assert sum(reference() is not None for reference in references) == kept


@pytest.mark.parametrize(
    ("cached", "limit", "ahead"),
    [(False, None, 0), (True, None, 64 * MEAN), (True, 10**6, 500_000)],
)
def test_remote_shards_are_opened_ahead_within_the_cache_limit(
    cached: bool, limit: int | None, ahead: int, tmp_path: Path
) -> None:
    written = write_dataset(tmp_path / "d", {"x": [bytes(MEAN)] * 6}, {"x": "binary"}, shard_size=1)
    directory = str(tmp_path / "cache") if cached else None
    dataset = open_dataset(written.url, cache=CacheOptions(directory=directory, limit=limit))
    assert dataset.bytes_ahead == pytest.approx(ahead, rel=0.01)
