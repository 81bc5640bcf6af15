"""The files that `MDSWriter` writes, and the cases where it writes none."""

import copy
import gc
import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.naming import value_id
from tests.kit.parquet_files import every_type
from tests.kit.small_datasets import array_of, numbers_in, same_values, write_ints

from mdstorm_backend import MDSWriter, errors, open_dataset
from mdstorm_backend.storage import Location


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def index_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "index.json").read_text())  # type: ignore[no-any-return]


def write_some(writer: MDSWriter, count: int) -> None:
    for number in range(count):
        writer.write({"n": number})


def write_all(writer: MDSWriter, count: int) -> None:
    write_some(writer, count)
    writer.finish()


write_numbers = partial(write_ints, numbers=range(300), size_limit=500)


@pytest.mark.parametrize(
    "compression", [None, "", "zstd", "zstd:19", "gz", "bz2:1", "br", "snappy"]
)
@pytest.mark.parametrize("max_workers", [None, 1])
def test_samples_read_back_in_order(
    out: Path, compression: str | None, max_workers: int | None
) -> None:
    write_numbers(out, compression=compression, max_workers=max_workers)
    assert len(index_of(out)["shards"]) > 5
    assert numbers_in(out) == list(range(300))


def test_finish_may_be_called_twice_or_within_the_with_block(out: Path) -> None:
    with MDSWriter(columns={"n": "int"}, out=out) as writer:
        writer.write({"n": 1})
        writer.finish()
    writer.finish()
    assert numbers_in(out) == [1]


@pytest.mark.parametrize("existed", [True, False])
def test_exception_in_the_with_block_leaves_no_dataset(out: Path, existed: bool) -> None:
    if existed:
        out.mkdir()
    writer = MDSWriter(columns={"n": "int"}, out=out, size_limit=100)
    write_some(writer, 50)
    with pytest.raises(KeyError, match="mine"), writer:
        raise KeyError("mine")
    assert list(out.parent.rglob("*")) == ([out] if existed else [])
    with pytest.raises(errors.WriteError, match="is abandoned"):
        writer.finish()
    with pytest.raises(errors.WriteError, match="is abandoned"):
        writer.write({"n": 1})


def test_writing_continues_after_a_rejected_sample(out: Path) -> None:
    with MDSWriter(columns={"n": "uint8"}, out=out) as writer:
        for number in (1, 300, None, 2):
            try:
                writer.write({"n": number})
            except errors.EncodingError:
                continue
        with pytest.raises(errors.MissingColumnError):
            writer.write({})
    assert numbers_in(out) == [1, 2]


def start(out: Path | str, **options: Any) -> MDSWriter:
    return MDSWriter(columns={"n": "int"}, out=out, size_limit=300, **options)


@pytest.mark.parametrize("exist_ok", [True, False])
def test_directory_has_one_writer_at_a_time(out: Path, exist_ok: bool) -> None:
    first = start(out)
    message = f"another writer .* by process {os.getpid()}"
    with pytest.raises(errors.DatasetExistsError, match=message):
        start(out, exist_ok=exist_ok)
    write_all(first, 100)
    assert numbers_in(out) == list(range(100))
    assert "_mdstorm_writing" not in {path.name for path in out.iterdir()}


def test_garbage_collected_writer_releases_the_directory(out: Path) -> None:
    start(out)
    gc.collect()
    assert list(out.iterdir()) == []
    write_numbers(out)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_writer_cannot_be_copied(out: Path, duplicate: Callable[[object], object]) -> None:
    with start(out) as writer, pytest.raises(errors.ArgumentTypeError, match="each process that"):
        duplicate(writer)


def test_second_writer_to_the_same_url_fails_and_the_first_completes() -> None:
    url = "memory://two/writers"
    first, second = start(url), start(url)
    write_all(first, 100)
    second.write({"n": -1})
    with pytest.raises(
        errors.DatasetExistsError, match="another writer is using the same directory"
    ):
        second.finish()
    assert numbers_in(url) == list(range(100))


@pytest.mark.parametrize("keep_local", [True, False])
def test_local_directory_of_a_pair_is_kept_only_with_keep_local(
    out: Path, keep_local: bool
) -> None:
    remote = f"memory://pair/{keep_local}"
    write_numbers((str(out), remote), keep_local=keep_local)
    assert numbers_in(remote) == list(range(300))
    assert out.exists() == keep_local
    if keep_local:
        names = sorted(path.name for path in out.iterdir())
        assert names == Location.of(remote).list_names()
        assert numbers_in(out) == list(range(300))


@pytest.mark.parametrize("broken", ["shard.00000.mds", "shard.00003.mds", "index.json"])
def test_failed_upload_raises_error_and_removes_the_shards(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Location.write

    def write_or_fail(self: Location, name: str, buffers: Any) -> None:
        if name == broken:
            raise OSError("no space left")
        write(self, name, buffers)

    monkeypatch.setattr(Location, "write", write_or_fail)
    url = f"memory://broken/{broken}"
    writer = MDSWriter(columns={"n": "int"}, out=url, size_limit=500, retry=0)
    with pytest.raises(errors.WriteError, match="no space left"):
        write_all(writer, 300)
    with pytest.raises(errors.WriteError, match="is abandoned"):
        writer.finish()
    assert Location.of(url).list_names() == []


def test_index_is_uploaded_after_all_shards(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    written: list[str] = []
    write = Location.write

    def noted(self: Location, name: str, buffers: Any) -> None:
        write(self, name, buffers)
        written.append(name)

    monkeypatch.setattr(Location, "write", noted)
    write_numbers(out, max_workers=np.int64(4), retry=np.int64(0))
    assert written[-1] == "index.json"
    assert len(written) == len(index_of(out)["shards"]) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, r"Invalid Writer argument\(s\): \['colour'\]"),
        ({"compression": "lzo"}, "'lzo' is unknown"), ({"size_limit": -1}, "greater than zero"),
        ({"hashes": ["sha1", "md5"]}, "unique and in sorted"), ({"retry": -1}, "retry must be"),
        ({"max_workers": 0}, "max_workers must be"), ({"max_workers": True}, "max_workers must be"),
        ({"columns": None}, "columns are not known"), ({"columns": {}}, "at least one entry"),
        ({"columns": {"a": "list[str]"}}, "did you mean list"), ({"columns": {5: "a"}}, "found 5"),
        *(({"columns": {"a": text}}, repr(text)) for text in ("ndarray:bool", "ndarray:int32:0")),
        ({"columns": {"a": "str:x", "b": "int"}}, "{'a': 'str:x'}: did you mean str"),
    ],
    ids=value_id,
)  # fmt: skip
def test_invalid_arguments_raise_error_before_anything_is_written(
    out: Path, options: dict[str, Any], message: str
) -> None:
    of_types = options.get("columns") is not None
    kind = errors.UnsupportedTypeError if of_types else errors.InvalidArgumentError
    arguments = {"columns": {"a": "int"}, "out": out, **options}
    with pytest.raises(kind, match=message), MDSWriter(**arguments) as writer:
        writer.write({"a": 1})
    assert not out.exists()


def test_arrow_data_of_all_types_reads_back_with_nulls(out: Path) -> None:
    table = every_type().append_column("half", pa.array(np.float16([0.5, 1, 2, 3])))
    table = table.append_column("pair", pa.array([[1, 2]] * 4, pa.list_(pa.int16(), 2)))
    with MDSWriter(out=out) as writer:
        writer.write_batch(table)
        for batch in table.to_batches():
            writer.write_batch(batch)
    dataset = open_dataset(str(out))
    found = dataset.to_table()
    assert same_values(found, pa.concat_tables([table, table]).cast(found.schema))
    assert dataset.schema["date"].null_count == 2
    assert dataset.schema["floats"].element_null_count == 2
    assert dataset.schema["pair"].length == 2


def test_batches_are_split_into_shards(out: Path) -> None:
    with MDSWriter(out=out, size_limit="4kb", compression="zstd", hashes=["sha1"]) as writer:
        for start in range(0, 3000, 700):
            writer.write_batch(pa.table({"n": range(start, min(start + 700, 3000))}))
    shards = index_of(out)["shards"]
    assert len(shards) > 3
    assert max(shard["raw_data"]["bytes"] for shard in shards) <= 4096
    assert all(shard["zip_data"]["hashes"] for shard in shards)
    assert numbers_in(out) == list(range(3000))


def test_mixing_samples_and_batches_in_one_writer_raises_error(out: Path) -> None:
    table = pa.table({"n": [1, 2]})
    with MDSWriter(columns={"n": "int64"}, out=out / "samples") as writer:
        with pytest.raises(errors.EncodingError):
            writer.write({"n": "refused, which leaves the choice"})
        writer.write({"n": 1})
        with pytest.raises(errors.InvalidArgumentError, match=r"has samples, .* write with each"):
            writer.write_batch(table)
        writer.write({"n": 2})
    with MDSWriter(columns={"n": "int64"}, out=out / "batches") as writer:
        writer.write_batch(table)
        with pytest.raises(errors.InvalidArgumentError, match=r"has Arrow data, .* write_batch"):
            writer.write({"n": 3})
    assert numbers_in(out / "samples") == numbers_in(out / "batches") == [1, 2]


@pytest.mark.parametrize(
    ("columns", "table", "message"),
    [
        ({"v": "int"}, {"v": ["a"]}, "'v' cannot be stored: string as 'int'"),
        ({"v": "bytes"}, {"v": ["a"]}, "string as 'bytes'"), ({"v": "str"}, {"v": [1]}, "as 'str'"),
        ({"v": "jpeg"}, {"v": ["a"]}, "as 'jpeg'"), ({"v": "ndarray"}, {"v": [1]}, "as 'ndarray'"),
        (None, {"v": pa.nulls(2)}, "'v': type null"),
        (None, {"v": pa.array([1], pa.time32("s"))}, "time32"),
    ],
    ids=value_id,
)  # fmt: skip
def test_columns_that_contradict_the_data_raise_error(
    out: Path, columns: Any, table: dict[str, Any], message: str
) -> None:
    writer = MDSWriter(columns=columns, out=out)
    with pytest.raises(errors.UnsupportedTypeError, match=message), writer:
        writer.write_batch(pa.table(table))
    assert not out.exists()


def test_missing_and_duplicate_columns_raise_error(out: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"])
    for columns in (None, {"n": "int"}):
        writer = MDSWriter(columns=columns, out=out)
        with pytest.raises(errors.InvalidArgumentError, match="'n'"), writer:
            writer.write_batch(twice)
    writer = MDSWriter(columns={"n": "int", "w": "int"}, out=out)
    with pytest.raises(errors.MissingColumnError, match="no column 'w'"), writer:
        writer.write_batch(pa.table({"n": [1]}))


def test_batch_with_different_types_than_the_first_raises_error(out: Path) -> None:
    with MDSWriter(out=out) as writer:
        writer.write_batch(pa.table({"a": [1], "b": ["x"]}))
        with pytest.raises(errors.InvalidArgumentError, match=r"'a' has type double .* int64 in"):
            writer.write_batch(pa.table({"a": [1.5], "b": ["x"]}))
        with pytest.raises(errors.InvalidArgumentError, match=r"'b' has type \(missing\)"):
            writer.write_batch(pa.table({"a": [1]}))
        writer.write_batch(pa.table({"b": ["y"], "a": [2], "c": [None]}))
    assert open_dataset(str(out)).to_table()["a"].to_pylist() == [1, 2]


def test_batch_rejected_before_writing_adds_no_rows(out: Path) -> None:
    with MDSWriter(columns={"n": "uint8"}, out=out) as writer:
        writer.write_batch(pa.table({"n": [1]}))
        with pytest.raises(errors.EncodingError):
            writer.write_batch(pa.table({"n": [2, 300]}))
        writer.write_batch(pa.table({"n": [3]}))
    assert numbers_in(out) == [1, 3]


def test_rejected_first_batch_does_not_determine_the_column_types(out: Path) -> None:
    odd = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    with MDSWriter(out=out) as writer:
        with pytest.raises(errors.EncodingError, match="would lose data"):
            writer.write_batch(odd)
        with pytest.raises(errors.InvalidArgumentError, match="columns are not known"):
            writer.write({"t": 1})
        writer.write_batch(odd.cast(pa.schema([("t", pa.int64())])))
    assert open_dataset(str(out)).to_table()["t"].to_pylist() == [1]


def without_nulls(values: list[int | None]) -> pa.Table:
    """Return a table whose column ``n`` is declared non-nullable."""
    return pa.table({"n": values}, pa.schema([pa.field("n", pa.int64(), nullable=False)]))


def test_nulls_in_a_non_nullable_column_raise_error(out: Path) -> None:
    with MDSWriter(out=out) as writer:
        with pytest.raises(errors.InvalidArgumentError, match="make the field nullable"):
            writer.write_batch(without_nulls([1, None]))
        writer.write_batch(without_nulls([1]))
        with pytest.raises(errors.InvalidArgumentError, match="'n' holds 2 nulls"):
            writer.write_batch(pa.table({"n": pa.array([None, None], pa.int64())}))
        writer.write_batch(pa.table({"n": [2]}))
    assert numbers_in(out) == [1, 2]


def test_tensors_keep_their_shapes(out: Path) -> None:
    tensors = np.arange(12, dtype="int16").reshape(2, 2, 3)
    with MDSWriter(out=out) as writer:
        writer.write_batch(pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(tensors)}))
    dataset = open_dataset(str(out))
    assert dataset.schema["t"].encoding == "ndarray:int16:2,3"
    np.testing.assert_array_equal([dataset[i]["t"] for i in range(2)], tensors)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("spark_type", [None, array_of("double")], ids=["untyped", "typed"])
def test_lists_in_arrays_that_state_their_dtype_read_back(
    out: Path, dtype: str, spark_type: Any
) -> None:
    lists = pa.array([[1, 2], None, [3]], pa.list_(pa.from_numpy_dtype(np.dtype(dtype))))
    with MDSWriter(out=out, columns={"v": "ndarray"}) as writer:
        writer.write_batch(pa.table({"v": lists}))
    index = index_of(out)
    assert index["mdstorm"]["columns"][0]["spark_type"] is None
    index["mdstorm"]["columns"][0]["spark_type"] = spark_type  # as earlier versions, for float64
    (out / "index.json").write_text(json.dumps(index))
    dataset = open_dataset(str(out))
    expected = [[1, 2], None, [3]]
    found = [dataset[i]["v"] for i in range(3)]
    assert [v if v is None else v.tolist() for v in found] == expected
    (batch,) = dataset.batches(3)
    assert [v if v is None else v.tolist() for v in batch["v"]] == expected
    assert {v.dtype for v in found if v is not None} == {np.dtype(dtype)}


def test_batch_that_fails_while_writing_ends_the_writer(out: Path) -> None:
    writer = MDSWriter(columns={"n": "uint8"}, out=out)
    with pytest.raises(errors.EncodingError):
        writer.write_batch(pa.table({"n": pa.chunked_array([[1, 2], [300]])}))
    with pytest.raises(errors.WriteError, match="is abandoned"):
        writer.finish()
    assert not out.exists()


def test_empty_first_batch_determines_the_column_types(out: Path) -> None:
    with MDSWriter(out=out) as writer:
        writer.write_batch(pa.table({"day": pa.array([], pa.date32())}))
    dataset = open_dataset(str(out))
    assert (len(dataset), dataset.schema["day"].arrow_type) == (0, pa.date32())


class Named(MDSWriter):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        held = dict(vars(self))
        for name in {"samples"}.union(*map(dir, held.values())) - {*held}:
            if not name.startswith("__") and not hasattr(MDSWriter, name):
                setattr(self, name, name)


def test_writer_subclass_may_set_attributes_of_any_name(out: Path) -> None:
    with Named(columns={"n": "int"}, out=str(out), size_limit=200) as writer:
        assert writer.store == "store"  # type: ignore[attr-defined]
        write_some(writer, 50)
    assert numbers_in(out) == list(range(50))
