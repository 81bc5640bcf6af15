"""``files=``: a column that has the content of the files that another column names."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.kit.parquet_files import open_parquet
from tests.kit.recorded_requests import record_requests
from tests.kit.small_datasets import write_dataset

from mdstorm import TransformSpec, convert, make_batch_reader, make_reader
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
)
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import DataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import open_dataset
from mdstorm_backend.loaders import trace_of_state

ROWS = 90
FILES = {"files": {"image": "path"}}

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader supports")


def path_of(number: int) -> str | None:
    """Every eleventh path is null, and some rows have the same path."""
    return None if number % 11 == 10 else f"_files/{number - number % 7 % 2}.bin"


def content_of(path: str | None) -> bytes | None:
    return None if path is None else f"content of {path}".encode() * 3


TABLE = pa.table(
    {
        "id": range(ROWS),
        "path": [path_of(number) for number in range(ROWS)],
        "half": [2 * number // ROWS for number in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {}
    for kind in ("mds", "parquet"):
        folder = tmp_path_factory.mktemp("files") / kind
        if kind == "mds":
            fields = {"id": "long", "path": "string", "half": "long"}
            write_dataset(folder, TABLE, fields, shard_size=2_000)
        else:
            folder.mkdir()
            pq.write_table(TABLE, folder / "a.parquet", row_group_size=19)
        (folder / "_files").mkdir()
        for path in filter(None, TABLE["path"].to_pylist()):
            content = content_of(path)
            assert content is not None
            (folder / path).write_bytes(content)
        found[kind] = folder.as_uri()
    return found


@pytest.fixture(params=["mds", "parquet"])
def url(request: pytest.FixtureRequest, urls: dict[str, str]) -> str:
    return urls[request.param]


def converter_of(url: str) -> SparkDatasetConverter:
    dataset = open_dataset(url)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


Rows = Iterator[tuple[int, Any]]


def by_batch_reader(url: str, **options: Any) -> Rows:
    with make_batch_reader(url, **options) as reader:
        for batch in reader:
            yield from zip(batch.id.tolist(), list(batch.image), strict=True)


def by_row_reader(url: str, **options: Any) -> Rows:
    with make_reader(url, **options) as reader:
        for row in reader:
            yield int(row.id), row.image


def by_data_loader(url: str, **options: Any) -> Rows:
    with make_reader(url, **options) as reader:
        for batch in DataLoader(reader, batch_size=7, shuffling_queue_capacity=30):
            yield from zip(batch["id"].tolist(), batch["image"], strict=True)


def by_petastorm_dataset(url: str, **options: Any) -> Rows:
    with make_batch_reader(url, **options) as reader:
        for batch in make_petastorm_dataset(reader):
            yield from zip(batch.id.numpy().tolist(), batch.image.numpy().tolist(), strict=True)


IN_PROCESS: dict[str, Any] = {"reader_pool_type": "process", "workers_count": 1}
FILLED: dict[str, Any] = {"fill_nulls": {"image": b"none"}}
CHOICES: dict[str, dict[str, Any]] = {
    "shuffled": {"shuffle_rows": True, "seed": 4},
    "window": {"shuffle_row_groups": True, "seed": 2, "shuffle_row_drop_partitions": 2},
    "elastic": {"order": "elastic", "seed": 3},
    "image not listed": {"schema_fields": ["id"]},
    "filled and filtered": {**FILLED, "filters": [("id", ">", 40)]},
    "filters": {"filters": [("id", ">", 40)]},
    "filter on paths": {"filters": [("path", "!=", None)]},
    "where": {"where": [("half", "=", 1)]},
    "rows": {"rows": [70, 3, 3, 12]},
    "predicate": {"predicate": in_lambda(["path"], lambda path: path is not None)},
    "mask": {"null_masks": ["image"]},
    "mask and filters": {"null_masks": ["image"], "filters": [("id", "<", 50)]},
    "in processes": {**IN_PROCESS, "filters": [("id", "<", 50)]},
    "a thread": {"workers_count": 1, "results_queue_size": 1},
    "none ahead": {"reader_pool_type": "dummy"},
}


def expected(choice: dict[str, Any]) -> Counter[tuple[int, bytes | None]]:
    numbers = choice.get("rows", range(ROWS))
    if "where" in choice:
        numbers = range(ROWS // 2, ROWS)
    if "filters" in choice:
        column, operator, value = choice["filters"][0]
        numbers = [
            n
            for n in numbers
            if (column == "path" and path_of(n) is not None)
            or (column == "id" and (n > value if operator == ">" else n < value))
        ]
    if "predicate" in choice:
        numbers = [n for n in numbers if path_of(n) is not None]
    null = b"none" if "fill_nulls" in choice else b"" if "null_masks" in choice else None
    found = {n: content_of(path_of(n)) for n in numbers}
    return Counter((n, null if found[n] is None else found[n]) for n in numbers)


@pytest.mark.matrix
@pytest.mark.parametrize("name", CHOICES)
def test_batches_have_the_content_of_each_file(url: str, name: str) -> None:
    choice = CHOICES[name]
    found = Counter(by_batch_reader(url, num_epochs=1, **FILES, **choice))
    assert found == expected(choice)


#: Ways to read without nulls, in which the paths are left out.
ADAPTERS = [by_row_reader, by_data_loader, by_petastorm_dataset]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["shuffled", "elastic", "filters", "mask"])
@pytest.mark.parametrize("read", ADAPTERS, ids=lambda read: read.__name__)
def test_adapters_return_the_content_of_each_file(
    urls: dict[str, str], read: Any, name: str
) -> None:
    choice = CHOICES[name] if name == "mask" else {**FILLED, **CHOICES[name]}
    found = Counter(read(urls["mds"], num_epochs=1, schema_fields=["id"], **FILES, **choice))
    assert found == expected(choice)


def counted(frame: Any) -> Any:
    return frame.assign(size=[-1 if image is None else len(image) for image in frame["image"]])


def halved(frame: Any) -> Any:
    frame = counted(frame)
    return frame[frame["id"] % 2 == 0]


def in_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "size": -1 if row["image"] is None else len(row["image"])}


SIZE = [("size", np.int64, (), False)]


@pytest.mark.matrix
@pytest.mark.parametrize("options", [{}, {"filters": [("id", ">", 40)]}, {"shuffle_rows": True}])
@pytest.mark.parametrize("function", [counted, halved, in_row])
def test_functions_get_contents_and_may_drop_rows(
    url: str, function: Any, options: dict[str, Any]
) -> None:
    keeps = {"keeps_rows": True} if function is counted else {}
    spec = TransformSpec(function, edit_fields=SIZE, removed_fields=["image"], **keeps)
    make = make_reader if function is in_row else make_batch_reader
    with make(url, transform_spec=spec, num_epochs=1, **FILES, **options) as reader:
        items = [*reader]
    if function is in_row:
        found = {int(item.id): int(item.size) for item in items}
    else:
        found = {i: n for b in items for i, n in zip(b.id.tolist(), b.size.tolist(), strict=True)}
    first = 41 if "filters" in options else 0
    numbers = [n for n in range(first, ROWS) if function is not halved or n % 2 == 0]
    contents = {n: content_of(path_of(n)) for n in numbers}
    assert found == {n: -1 if c is None else len(c) for n, c in contents.items()}


@pytest.mark.newest
@pytest.mark.parametrize("options", [{}, {"order": "elastic"}, {"order": "elastic", **IN_PROCESS}])
def test_files_of_rows_that_a_filter_leaves_out_are_not_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = {"id": [0, 1, 2], "path": ["_files/a", "_files/missing", "_files/a"]}
    url = write(tmp_path, table, {"a": b"content"})
    # Worker processes would import this module, with TensorFlow, for one of its functions.
    sizes = lambda frame: frame.assign(size=frame.pop("image").map(len))  # noqa: E731
    spec = TransformSpec(sizes, edit_fields=SIZE, removed_fields=["image"])
    chosen = {"filters": [("id", "!=", 1)], "num_epochs": 1, **options}
    with make_batch_reader(url, transform_spec=spec, **FILES, **chosen) as reader:
        assert [size for batch in reader for size in batch.size.tolist()] == [7, 7]


def write(folder: Path, table: Any, files: dict[str, bytes], row_group_size: int = 4) -> str:
    """Write a table, and files in a folder next to it; return the table's URL."""
    data = folder / "data"
    (data / "_files").mkdir(parents=True)
    pq.write_table(pa.table(table), data / "a.parquet", row_group_size=row_group_size)
    for name, content in files.items():
        (data / "_files" / name).write_bytes(content)
    return data.as_uri()


def png(number: int) -> bytes:
    file = BytesIO()
    Image.new("RGB", (4, 3), (number, 0, 0)).save(file, "png")
    return file.getvalue()


#: Of ten images, one is missing and one is damaged.
IMAGES = {f"{n}.png": png(n) if n != 3 else b"no image" for n in range(10) if n != 6}
NAMED = {"id": range(10), "path": [f"_files/{n}.png" for n in range(10)]}
SHIFTED = TransformSpec(
    lambda frame: frame.assign(image=[image + 1 for image in frame["image"]]),
    edit_fields=[("image", np.uint8, (3, 4, 3), False)],
)


@pytest.mark.newest
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": 3},
        {"filters": [("id", ">=", 0)]},
        {"transform_spec": SHIFTED},
        {"transform_spec": SHIFTED, **IN_PROCESS},
        pytest.param(
            {"filters": [("id", ">=", 0)], "size": 3, **IN_PROCESS}, marks=pytest.mark.long
        ),
    ],
)
def test_missing_and_damaged_images_are_left_out_and_counted(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    url = write(tmp_path, NAMED, IMAGES)
    options = {**options, "decode": "image", "num_epochs": 1, **FILES}
    added = 1 if "transform_spec" in options else 0
    with make_batch_reader(url, on_corrupt="skip", shuffle_row_groups=False, **options) as reader:
        batches = [*reader]
        assert reader.statistics().skipped == 2
    assert [batch.id.tolist() for batch in batches] == [[0, 1, 2], [4, 5, 7], [8, 9]]
    reds = [batch.image[:, 0, 0, 0].tolist() for batch in batches]
    assert reds == [[number + added for number in batch.id.tolist()] for batch in batches]
    with make_batch_reader(url, **options) as reader, pytest.raises(ValueError, match=r"\.png"):
        list(reader)


SAME = TransformSpec(lambda frame: frame)


@pytest.mark.matrix
@pytest.mark.newest
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transform_spec": SAME},
        {"filters": [("path", "!=", "x")], "transform_spec": SAME},
        {"transform_spec": SAME, **IN_PROCESS},
        pytest.param({"filters": [("path", "!=", "x")], **IN_PROCESS}, marks=pytest.mark.long),
        pytest.param(
            {
                "filters": [("path", "!=", "x")],
                "transform_spec": SAME,
                "reader_pool_type": "process",
                "workers_count": 2,
            },
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:No matching data")
@pytest.mark.parametrize(("rows", "is_error"), [(7, False), (8, True)])
def test_error_at_the_end_of_a_pass_if_no_file_of_several_exists(
    tmp_path: Path, rows: int, is_error: bool, options: dict[str, Any]
) -> None:
    url = write(tmp_path, {"path": [f"_files/{n}" for n in range(rows)]}, {})
    expected = pytest.raises(InvalidArgumentError, match="none of the first 8 files")
    with (
        make_batch_reader(url, num_epochs=1, on_corrupt="skip", **FILES, **options) as reader,
        expected if is_error else nullcontext(),
    ):
        assert not any(len(item.path) for item in reader)


def test_files_below_a_prefix_and_their_limit(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/a.bin").write_bytes(b"content")
    url = write(tmp_path, {"path": [f"{tmp_path}/volume/a.bin"]}, {})
    below = {"files_below": [f"{tmp_path}/volume"], "num_epochs": 1, **FILES}
    with make_batch_reader(url, **below) as reader:
        assert next(reader).image.tolist() == [b"content"]
    with (
        make_batch_reader(url, max_file_bytes=6, **below) as reader,
        pytest.raises(InvalidArgumentError, match="max_file_bytes"),
    ):
        next(reader)


def test_model_columns_without_contents_raise_error(urls: dict[str, str]) -> None:
    options = {"features": ["id"], "labels": "half", **FILES}
    with (
        converter_of(urls["mds"]).make_torch_dataloader(**options) as loader,
        pytest.raises(InvalidArgumentError, match="files='image' adds a column that"),
    ):
        next(iter(loader))


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"half": "path"}, InvalidArgumentError, "files adds a column 'half', but"),
        ({"image": "id"}, InvalidArgumentError, "from column 'id' of .* which is of type"),
        ({"image": "paht"}, InvalidArgumentError, "which does not exist.*'path'"),
        (["image"], ArgumentTypeError, "files must map the name of each column"),
        ({"image": 3}, ArgumentTypeError, "files must map the name of each column"),
        ({"": "path"}, ArgumentTypeError, "files must map the name of each column"),
    ],
    ids=str,
)
def test_invalid_columns_raise_error(url: str, files: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make_batch_reader(url, files=files)


@pytest.mark.parametrize("limit", [0, -1, True, "1"])
def test_invalid_limit_raises_error(url: str, limit: Any) -> None:
    with pytest.raises((ArgumentTypeError, InvalidArgumentError), match="max_file_bytes"):
        make_batch_reader(url, max_file_bytes=limit, **FILES)


def test_predicate_on_contents_raises_error(url: str) -> None:
    chosen = in_lambda(["image"], lambda image: bool(image))
    with pytest.raises(InvalidArgumentError, match="image"):
        make_batch_reader(url, predicate=chosen, **FILES)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are read."""
    return record_requests(monkeypatch)


@pytest.mark.matrix
@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"shuffle_rows": True, "seed": 4},
        {"filters": [("id", ">=", 0)]},
        {"filters": [("id", ">=", 0)], "shuffle_rows": True, "seed": 4},
    ],
    ids=str,
)
def test_reader_does_not_hold_all_files_of_a_row_group(
    tmp_path: Path, requests: list[str], make: Any, choice: dict[str, Any]
) -> None:
    table = {"id": range(500), "path": [f"_files/{n % 200}" for n in range(500)]}
    url = write(tmp_path, table, {str(n): b"%d" % n for n in range(200)}, row_group_size=400)
    options = {"num_epochs": 1, "reader_pool_type": "dummy", **FILES, **choice}

    def pairs(items: Any) -> list[tuple[int, bytes]]:
        if make is make_reader:
            return [(int(item.id), item.image) for item in items]
        return [pair for item in items for pair in zip(item.id.tolist(), item.image, strict=True)]

    with make(url, **options) as reader:
        found = [next(reader)]
        assert 0 < len(requests) <= 128
        found += [next(reader) for _ in range(2 if make is make_batch_reader else 150)]
        state = reader.state_dict()
    with make(url, **options) as reader:
        reader.load_state_dict(state)
        found += [*reader]
    read = pairs(found)
    assert sorted(read) == [(n, b"%d" % (n % 200)) for n in range(500)]


def test_trace_of_a_state_alone_has_the_batches_of_a_reader_with_files(tmp_path: Path) -> None:
    table = {"id": range(200), "path": ["_files/a"] * 200}
    url = write(tmp_path, table, {"a": b"content"}, row_group_size=150)
    with make_batch_reader(url, num_epochs=1, shuffle_row_groups=False, **FILES) as reader:
        next(reader)
        trace = trace_of_state(reader.state_dict(), open_parquet(url))
        rest = [item.id.tolist() for item in reader]
    assert [len(rows) for rows in rest] == [64, 22, 50]
    assert [trace.rows(batch).tolist() for batch in range(len(rest))] == rest


def labels(folder: Path, *names: str, path: str = "_files/a") -> Path:
    """Write directories of labels whose rows name a file; `path` may contain its directory."""
    for name in names:
        (folder / name / "_files").mkdir(parents=True)
        (folder / name / "_files/a").write_bytes(b"content")
        paths = {"path": [path.format(folder / name)]}
        pq.write_table(pa.table(paths), folder / name / "a.parquet")
        write_dataset(folder / name / "_mds", paths, {"path": "string"})
        (folder / name / "_mds/_files").symlink_to(folder / name / "_files")
    return folder


def by_reader(urls: Any, **options: Any) -> list[bytes]:
    with make_batch_reader(urls, num_epochs=1, **options) as reader:
        return [image for batch in reader for image in batch.image.tolist()]


def by_converter(url: str, **options: Any) -> list[bytes]:
    with make_spark_converter(url).make_torch_dataloader(2, num_epochs=1, **options) as loader:
        return [image for batch in loader for image in batch["image"]]


def by_conversion(url: str, **options: Any) -> list[bytes]:
    with TemporaryDirectory() as target:
        return list(convert(url, f"{target}/copy", **options).to_table()["image"].to_pylist())


WAYS = {"reader": by_reader, "converter": by_converter, "convert": by_conversion}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["_files/a", "{}/_files/a"])
def test_files_below_the_directory_that_was_named_are_read(
    tmp_path: Path, path: str, way: str
) -> None:
    folder = labels(tmp_path, "labels", path=path) / "labels"
    assert WAYS[way](folder.as_uri(), **FILES) == [b"content"]
    if way == "reader":
        assert by_reader([folder.as_uri()], **FILES) == [b"content"]


#: Ways to name files, so that the dataset has no directory of its own; only readers take lists.
WITHOUT_DIRECTORY: dict[str, Callable[[str], Any]] = {
    "file": lambda url: f"{url}/labels/a.parquet",
    "pattern": lambda url: f"{url}/labels/*.parquet",
    "pattern of directories": lambda url: f"{url}/*/a.parquet",
    "list of a file": lambda url: [f"{url}/labels/a.parquet"],
    "list of files": lambda url: [f"{url}/labels/a.parquet", f"{url}/other/a.parquet"],
    "list of directories": lambda url: [f"{url}/labels", f"{url}/other"],
    "list of shards": lambda url: open_dataset(f"{url}/labels/_mds").file_urls,
}
NAMED_BY = [
    (named, way)
    for named in WITHOUT_DIRECTORY
    for way in WAYS
    if way == "reader" or not named.startswith("list")
]


@pytest.mark.newest
@pytest.mark.parametrize(("named", "way"), NAMED_BY)
@pytest.mark.parametrize(
    ("path", "found"),
    [("_files/a", "is relative, which only works"), ("{}/_files/a", "not in an allowed")],
    ids=["relative", "absolute"],
)
def test_file_next_to_files_that_were_named_is_refused(
    tmp_path: Path, path: str, found: str, named: str, way: str
) -> None:
    urls = WITHOUT_DIRECTORY[named](labels(tmp_path, "labels", "other", path=path).as_uri())
    with pytest.raises(InvalidArgumentError, match=found):
        WAYS[way](urls, **FILES, files_below=[f"{tmp_path}/nowhere"])


def test_converter_over_shards_has_the_directory_that_its_user_named(tmp_path: Path) -> None:
    converter = converter_of(f"{labels(tmp_path, 'labels')}/labels/_mds")
    below = {"files_below": [f"{tmp_path}/labels/_files"], "num_epochs": 1, **FILES}
    with converter.make_torch_dataloader(1, **below) as loader:
        assert [batch["image"] for batch in loader] == [[b"content"]]
