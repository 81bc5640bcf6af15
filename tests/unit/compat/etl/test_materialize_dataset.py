"""`materialize_dataset` keeps the files written in its block and adds metadata next to them."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from tests.conftest import IS_REFUSING
from tests.kit.parquet_files import open_parquet
from tests.unit.compat.etl.golden_rows import SCHEMA, JsonCodec, assert_rows, encoded, row, write

from mdstorm import errors
from mdstorm.codecs import CompressedNdarrayCodec, NdarrayCodec
from mdstorm.etl.dataset_metadata import (
    ROW_GROUPS_PER_FILE_KEY,
    UNISCHEMA_KEY,
    get_schema_from_dataset_url,
    load_row_groups,
    materialize_dataset,
)
from mdstorm.etl.petastorm_generate_metadata import generate_petastorm_metadata
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index, get_row_group_indexes
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.unischema import Unischema, UnischemaField

IDS = Unischema("Ids", [UnischemaField("id", np.int64, ())])
WIDER = Unischema("Wider", [*IDS.fields.values(), UnischemaField("x", np.float32, (), None, True)])


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def metadata(directory: Path, name: str = "_common_metadata") -> dict[bytes, bytes]:
    return dict(pq.read_metadata(directory / name).metadata)


def counts(directory: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(metadata(directory)[ROW_GROUPS_PER_FILE_KEY])
    return found


def write_ids(directory: Path, name: str, ids: range, *, group: int = 1000) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids)}), directory / name, row_group_size=group)


def ids_of(directory: Path) -> list[int]:
    with make_reader(directory.as_uri(), shuffle_row_groups=False) as reader:
        return [int(row.id) for row in reader]


def test_materialize_dataset_keeps_files_and_adds_metadata(tmp_path: Path) -> None:
    with materialize_dataset(None, tmp_path.as_uri(), SCHEMA, row_group_size_mb=1):
        write(tmp_path, "a.parquet", range(20))
        write(tmp_path, "b.parquet", range(20, 30))
        (tmp_path / "_SUCCESS").touch()
        (tmp_path / ".a.parquet.crc").write_bytes(b"crc")
        (tmp_path / "_mine.txt").write_text("mine")
        written = content(tmp_path)
    after = content(tmp_path)
    assert after.pop("_common_metadata")
    assert after == written
    assert counts(tmp_path) == {"a.parquet": 1, "b.parquet": 1}
    assert str(get_schema_from_dataset_url(tmp_path.as_uri())) == str(SCHEMA)
    with make_reader(tmp_path.as_uri(), shuffle_row_groups=False) as reader:
        assert_rows(list(reader), [row(i) for i in range(30)])


def test_metadata_has_the_same_columns_as_the_files(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("us"))})
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        for part in ("x", "y"):
            (tmp_path / f"part={part}").mkdir()
            path = tmp_path / f"part={part}" / "a.parquet"
            pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    written = pq.read_metadata(path).schema
    assert pq.read_metadata(tmp_path / "_common_metadata").schema.equals(written)
    assert written.column(1).physical_type == "INT96"
    assert counts(tmp_path) == {"part=x/a.parquet": 1, "part=y/a.parquet": 1}


def test_appending_rows_with_a_different_schema_raises_error(tmp_path: Path) -> None:
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        write_ids(tmp_path, "a.parquet", range(5))
    before = metadata(tmp_path)
    other = Unischema("Other", [UnischemaField("id", np.int32, ())])
    refusal = r"'Other', which differs in the fields \['id'\].* new files, \['b.parquet'\]"
    with (
        pytest.raises(errors.PetastormMetadataGenerationError, match=refusal),
        materialize_dataset(None, tmp_path.as_uri(), other),
    ):
        write_ids(tmp_path, "b.parquet", range(5, 8))
    assert metadata(tmp_path) == before
    assert content(tmp_path).keys() == {"a.parquet", "b.parquet", "_common_metadata"}
    generate_petastorm_metadata(None, tmp_path.as_uri(), f"{__name__}.IDS")  # the remedy
    assert ids_of(tmp_path) == list(range(8))


def test_reader_error_names_files_from_earlier_failed_block(tmp_path: Path) -> None:
    """Readers take the fields from the first block's metadata, whatever the files contain."""
    for name, size in (("a", 2), ("b", 3)):
        field = UnischemaField("vec", np.float32, (size,), NdarrayCodec())
        value = bytes(NdarrayCodec().encode(field, np.zeros(size, np.float32)))
        with (
            nullcontext() if size == 2 else pytest.raises(errors.PetastormMetadataGenerationError),
            materialize_dataset(None, tmp_path.as_uri(), Unischema(name, [field])),
        ):
            pq.write_table(pa.table({"vec": [value]}), tmp_path / f"{name}.parquet")
    message = (
        r"/b.parquet holds an array of shape \(3,\), but the schema declares \(2,\).* remove the"
    )
    unnamed = r"files that its metadata does not list: \['b.parquet'\], 1 in all.* schema 'a'"
    with pytest.warns(UserWarning, match=unnamed), pytest.warns(match="make_reader"):
        make_batch_reader(tmp_path.as_uri())
    with pytest.warns(UserWarning, match=unnamed):
        reader = make_reader(tmp_path.as_uri())
    with pytest.raises(errors.DecodeFieldError, match=message):
        list(reader)


def test_block_that_replaces_all_files_can_change_the_schema(tmp_path: Path) -> None:
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        write_ids(tmp_path, "a.parquet", range(5))
    with materialize_dataset(None, tmp_path.as_uri(), WIDER):
        (tmp_path / "a.parquet").unlink()
        pq.write_table(pa.table({"id": [1, 2], "x": [0.5, None]}), tmp_path / "b.parquet")
    assert counts(tmp_path) == {"b.parquet": 1}
    with make_reader(tmp_path.as_uri(), shuffle_row_groups=False) as reader:
        assert next(row.x for row in reader) == np.float32(0.5)


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "hostile", "stale"])
def test_block_without_new_files_updates_the_metadata(tmp_path: Path, damage: str) -> None:
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        write_ids(tmp_path, "a.parquet", range(5))
    expected = metadata(tmp_path)
    path = tmp_path / "_common_metadata"
    if damage == "missing":
        path.unlink()
    elif damage == "hostile":
        schema = pq.read_schema(path)
        hostile = {UNISCHEMA_KEY: b"cos\nsystem\n(S'touch hacked'\ntR."}
        pq.write_metadata(schema.with_metadata(hostile), path)
    elif damage == "stale":
        write_ids(tmp_path, "a.parquet", range(5), group=2)
        expected[ROW_GROUPS_PER_FILE_KEY] = b'{"a.parquet": 3}'
    else:
        path.write_bytes(path.read_bytes()[: -9 if damage == "truncated" else 0])
    if damage in ("truncated", "empty"):
        with pytest.raises(
            errors.CorruptDatasetError, match=r"_common_metadata was truncated.*pass"
        ):
            make_reader(tmp_path.as_uri())
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        pass
    found = metadata(tmp_path)
    for key in (UNISCHEMA_KEY, ROW_GROUPS_PER_FILE_KEY):
        assert found[key] == expected[key]
    assert ids_of(tmp_path) == list(range(5))


def test_metadata_is_kept_if_block_raises(tmp_path: Path) -> None:
    def fail() -> None:
        with materialize_dataset(None, tmp_path.as_uri(), IDS):
            write_ids(tmp_path, "b.parquet", range(5, 8))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(tmp_path).keys() == {"b.parquet"}
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        pass
    before = content(tmp_path)["_common_metadata"]
    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(tmp_path)["_common_metadata"] == before


def test_block_without_files_raises_error(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    for directory in (tmp_path / "nothing", tmp_path):
        with (
            pytest.raises(errors.DatasetNotFoundError),
            materialize_dataset(None, directory.as_uri(), IDS),
        ):
            pass
    assert content(tmp_path).keys() == {"_SUCCESS"}


def test_empty_files_are_part_of_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "._common_metadata.crc").write_bytes(b"old")  # will be removed
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        pq.write_metadata(pa.schema([("id", pa.int64())]), tmp_path / "a.parquet")
    assert counts(tmp_path) == {"a.parquet": 0}
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        write_ids(tmp_path, "b.parquet", range(2))
    assert counts(tmp_path) == {"a.parquet": 0, "b.parquet": 1}
    assert content(tmp_path).keys() == {"a.parquet", "b.parquet", "_common_metadata"}
    assert ids_of(tmp_path) == [0, 1]


def test_error_names_incompatible_files(tmp_path: Path) -> None:
    columns = pa.table({"day": [1]})
    types = encoded(range(3)).set_column(1, "vec", pa.array([1.5] * 3))
    for name, table, message in (
        ("theirs.parquet", columns, r"theirs\.parquet has no column 'id', but .*a\.parquet has it"),
        ("a.parquet", types, r"column 'vec' in .* is double, but NdarrayCodec\(\) stores bytes"),
        ("notes.txt", None, r"notes\.txt is not a Parquet file"),
    ):
        write(tmp_path / name, "a.parquet", range(3))
        if table is None:
            (tmp_path / name / name).write_text("mine")
        else:
            pq.write_table(table, tmp_path / name / name)
        before = content(tmp_path)
        with (
            pytest.raises(errors.PetastormMetadataGenerationError, match=message),
            materialize_dataset(None, (tmp_path / name).as_uri(), SCHEMA),
        ):
            pass
        assert content(tmp_path) == before


def test_concurrent_blocks_do_not_lose_files(tmp_path: Path) -> None:
    numbers, together = range(6), threading.Barrier(6, timeout=60)

    def append(number: int) -> None:
        with materialize_dataset(None, tmp_path.as_uri(), IDS):
            write_ids(tmp_path, f"{number}.parquet", range(number, number + 1))
            together.wait()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(append, numbers)) == [None] * 6
    assert counts(tmp_path) == {f"{number}.parquet": 1 for number in numbers}
    assert content(tmp_path).keys() == {*counts(tmp_path), "_common_metadata"}


def test_metadata_includes_files_added_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdstorm._datasets import petastorm_metadata

    later, write_metadata_file = [1, 2], petastorm_metadata.write_metadata_file

    def write_and_add_a_file(*arguments: Any) -> None:
        write_metadata_file(*arguments)
        if later:
            write_ids(tmp_path, f"{later.pop()}.parquet", range(2))

    monkeypatch.setattr(petastorm_metadata, "write_metadata_file", write_and_add_a_file)
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        write_ids(tmp_path, "0.parquet", range(2))
    assert counts(tmp_path) == {"0.parquet": 1, "1.parquet": 1, "2.parquet": 1}


def test_metadata_waits_for_file_that_is_still_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdstorm._datasets import petastorm_metadata

    write_ids(tmp_path, "a.parquet", range(2))
    half = content(tmp_path)["a.parquet"][:-4]
    (tmp_path / "b.parquet").write_bytes(half)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        write_ids(tmp_path, "b.parquet", range(2))

    # Replace `time` only in `petastorm_metadata`: other tests' threads also call `time.sleep`.
    monkeypatch.setattr(petastorm_metadata, "time", SimpleNamespace(sleep=sleep))
    with materialize_dataset(None, tmp_path.as_uri(), IDS):
        pass
    assert len(waits) == 1
    assert counts(tmp_path) == {"a.parquet": 1, "b.parquet": 1}


@pytest.mark.filterwarnings("ignore:.* holds files that its metadata does not list")
def test_index_is_removed_if_row_groups_have_changed(tmp_path: Path) -> None:
    def block(*names: str, group: int = 2) -> None:
        with materialize_dataset(None, tmp_path.as_uri(), IDS):
            for name in names:
                write_ids(tmp_path, name, range(4), group=group)

    block("b.parquet")
    build_rowgroup_index(tmp_path.as_uri(), None, [SingleFieldIndexer("by_id", "id")])
    block()
    assert get_row_group_indexes(tmp_path.as_uri())["by_id"].get_row_group_indexes(3) == {1}
    write_ids(tmp_path, "a.parquet", range(4))
    for _ in range(2):  # before and after the metadata is updated
        with pytest.raises(errors.InvalidArgumentError, match="Row groups index is not available"):
            get_row_group_indexes(tmp_path.as_uri())
        block()
    assert b"dataset-toolkit.rowgroups_index.v1" not in metadata(tmp_path)


class TestSummaries:
    """The summary file `_metadata`, which Petastorm uses if it exists."""

    def test_a_summary_is_written_on_request(self, tmp_path: Path) -> None:
        with materialize_dataset(None, tmp_path.as_uri(), IDS, use_summary_metadata=True):
            for part in ("x", "y"):
                write_ids(tmp_path / f"part={part}", "a.parquet", range(4), group=2)
        found = pq.read_metadata(tmp_path / "_metadata")
        groups = [found.row_group(i) for i in range(found.num_row_groups)]
        assert [(group.column(0).file_path, group.num_rows) for group in groups] == [
            *[("part=x/a.parquet", 2)] * 2,
            *[("part=y/a.parquet", 2)] * 2,
        ]
        assert len(load_row_groups(open_parquet(str(tmp_path)))) == 4

    def test_existing_summary_is_updated_with_new_files(self, tmp_path: Path) -> None:
        for name, asked in (("a.parquet", True), ("b.parquet", False)):
            with materialize_dataset(None, tmp_path.as_uri(), IDS, use_summary_metadata=asked):
                write_ids(tmp_path, name, range(3))
        assert pq.read_metadata(tmp_path / "_metadata").num_row_groups == 2

    def test_error_names_files_that_summary_cannot_describe(self, tmp_path: Path) -> None:
        write_ids(tmp_path, "a.parquet", range(3))
        pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "b.parquet")
        with (
            pytest.raises(
                errors.PetastormMetadataGenerationError, match=r"b\.parquet stores its columns"
            ),
            materialize_dataset(None, tmp_path.as_uri(), IDS, use_summary_metadata=True),
        ):
            pass
        assert content(tmp_path).keys() == {"a.parquet", "b.parquet"}


@pytest.mark.parametrize("kind", ["memory", "arrow", "path"])
def test_path_is_accepted_with_filesystem_factory(tmp_path: Path, kind: str) -> None:
    fs: Any = fsspec.filesystem("memory" if kind == "memory" else "file")
    url = f"{tmp_path}/data" if kind == "path" else f"/{tmp_path.name}/data"
    if kind == "arrow":
        fs = pa.fs.SubTreeFileSystem(str(tmp_path.parent), pa.fs.LocalFileSystem())
    with materialize_dataset(None, url, IDS, filesystem_factory=lambda: fs):
        file = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [1, 2]}), file)
        if kind == "memory":
            fs.pipe_file(f"{url}/a.parquet", file.getvalue().to_pybytes())
        else:
            (tmp_path / "data").mkdir()
            (tmp_path / "data" / "a.parquet").write_bytes(file.getvalue().to_pybytes())
    if kind != "memory":
        assert counts(tmp_path / "data") == {"a.parquet": 1}
    url = f"memory://{url}" if kind == "memory" else (tmp_path / "data").as_uri()
    with make_reader(url, shuffle_row_groups=False) as reader:
        assert [int(row.id) for row in reader] == [1, 2]


def test_invalid_arguments_raise_error_before_block_runs(tmp_path: Path) -> None:
    own = Unischema("Own", [UnischemaField("a", np.float32, (2,), JsonCodec())])
    orc: Any = {"storage_format": "orc"}
    wrong: list[tuple[str, Any, Any, type[Exception]]] = [
        (str(tmp_path), SCHEMA, {}, errors.InvalidArgumentError),
        (tmp_path.as_uri(), "schema", {}, errors.ArgumentTypeError),
        (tmp_path.as_uri(), SCHEMA, {"row_group_size_mb": -1}, errors.InvalidArgumentError),
        (tmp_path.as_uri(), own, {}, errors.InvalidArgumentError),
        (tmp_path.as_uri(), SCHEMA, orc, errors.InvalidArgumentError),
    ]
    for url, schema, options, error in wrong:
        with pytest.raises(error), materialize_dataset(None, url, schema, **options):
            raise AssertionError


@pytest.mark.skipif(IS_REFUSING, reason="reads Hadoop settings, which this session rejects")
def test_hadoop_settings_are_restored_after_block(classic_spark: Any, tmp_path: Path) -> None:
    conf = classic_spark.sparkContext._jsc.hadoopConfiguration()
    keys = ("parquet.block.size", "parquet.summary.metadata.level")
    conf.set(keys[1], "COMMON_ONLY")
    within = []

    def fail() -> None:
        with materialize_dataset(classic_spark, f"file://{tmp_path}", SCHEMA, row_group_size_mb=3):
            within.extend(conf.get(key) for key in keys)
            raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert within == [str(3 << 20), "NONE"]
        assert [conf.get(key) for key in keys] == [None, "COMMON_ONLY"]
        for size in (None, 0):  # Spark's default
            with materialize_dataset(classic_spark, tmp_path.as_uri(), IDS, row_group_size_mb=size):
                assert conf.get(keys[0]) is None
                write_ids(tmp_path, "a.parquet", range(3))
    finally:
        conf.unset(keys[1])


def test_row_group_size_applies_unless_session_rejects_it(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the session rejects the setting, a warning names the remedy."""
    with (
        caplog.at_level("WARNING", "mdstorm"),
        materialize_dataset(spark, tmp_path.as_uri(), IDS, row_group_size_mb=1),
    ):
        frame = spark.range(0, 400_000, 1, 1).selectExpr("xxhash64(id) AS id")
        frame.write.mode("append").parquet(tmp_path.as_uri())
    (groups,) = counts(tmp_path).values()
    if IS_REFUSING:
        assert groups == 1
        assert "Write with df.write.option('parquet.block.size', '1048576')" in caplog.text
    else:
        assert groups > 1
        assert not caplog.records


def test_file_written_with_a_different_codec_raises_error(tmp_path: Path) -> None:
    refusal = pytest.raises(errors.PetastormMetadataGenerationError, match=r"\['a'\]")
    for codec, context in ((NdarrayCodec(), nullcontext()), (CompressedNdarrayCodec(), refusal)):
        schema = Unischema("S", [UnischemaField("a", np.float32, (2,), codec)])
        with context, materialize_dataset(None, tmp_path.as_uri(), schema):
            pq.write_table(pa.table({"a": [b""]}), tmp_path / f"{type(codec).__name__}.parquet")
