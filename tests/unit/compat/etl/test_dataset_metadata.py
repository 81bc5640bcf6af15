"""Finding a dataset's schema, and adding a schema to an existing dataset."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.unit.compat.etl.golden_rows import GOLDEN, golden_url

from mdstorm import errors
from mdstorm.codecs import NdarrayCodec
from mdstorm.etl.dataset_metadata import (
    ROW_GROUPS_PER_FILE_KEY,
    UNISCHEMA_KEY,
    get_schema,
    get_schema_from_dataset_url,
    infer_or_load_unischema,
    load_row_groups,
)
from mdstorm.etl.petastorm_generate_metadata import _main, generate_petastorm_metadata
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import (
    ROWGROUPS_INDEX_KEY,
    build_rowgroup_index,
    get_row_group_indexes,
)
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.utils import add_to_dataset_metadata
from mdstorm_backend import open_dataset
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.format import Column, Schema

PARTS = Unischema(
    "Mine",
    [
        UnischemaField("id", np.int32, ()),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec()),
        UnischemaField("split", np.str_, ()),
    ],
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A Petastorm dataset whose metadata file was removed."""
    shutil.copytree(GOLDEN / "partitioned", tmp_path / "plain")
    (tmp_path / "plain" / "_common_metadata").unlink()
    return tmp_path / "plain"


def metadata(directory: Path) -> dict[bytes, bytes]:
    return dict(pq.read_metadata(directory / "_common_metadata").metadata)


def indexed(url: str) -> dict[str, dict[object, set[int]]]:
    """Return the row groups of each value, by the name of the index."""
    return {
        name: {value: index.get_row_group_indexes(value) for value in index.indexed_values}
        for name, index in get_row_group_indexes(url).items()
    }


@pytest.mark.parametrize("name", ["codecs", "partitioned", "summary"])
def test_petastorm_dataset_schema_is_found(name: str, tmp_path: Path) -> None:
    schema = get_schema_from_dataset_url(golden_url(name))
    assert schema._name == {"codecs": "Codecs"}.get(name, "Parts")
    for dataset in (open_parquet(golden_url(name)), pq.ParquetDataset(GOLDEN / name)):
        assert str(get_schema(dataset)) == str(schema)
        assert str(infer_or_load_unischema(dataset)) == str(schema)
    if name == "partitioned":  # the schema is found even if only one partition remains
        shutil.copytree(GOLDEN / name, tmp_path / "data")
        shutil.rmtree(tmp_path / "data" / "split=train")
        assert str(get_schema(pq.ParquetDataset(tmp_path / "data"))) == str(schema)


def test_dataset_without_schema_raises_error(plain: Path) -> None:
    with pytest.raises(errors.PetastormMetadataError, match="Could not find _common_metadata file"):
        get_schema_from_dataset_url(f"file://{plain}")
    pq.write_metadata(pa.schema([("a", pa.int8())]), plain / "_common_metadata")
    for dataset in (open_parquet(str(plain)), pq.ParquetDataset(plain)):
        with pytest.raises(errors.PetastormMetadataError, match="Could not find the unischema"):
            get_schema(dataset)
    mds = convert_parquet(open_parquet(str(plain)), str(plain / "mds"))
    with pytest.raises(errors.PetastormMetadataError, match="Could not find the unischema"):
        get_schema(mds)
    assert infer_or_load_unischema(mds).fields.keys() == {"id", "vec", "split", "shard"}
    for wrong in ("url", None):
        with pytest.raises(
            errors.ArgumentTypeError, match="a ParquetDataset of mdstorm or pyarrow"
        ):
            get_schema(wrong)
    with pytest.raises(errors.InvalidArgumentError, match="scheme-less"):
        get_schema_from_dataset_url(str(plain))
    (plain / "empty").mkdir()
    for without in ("nothing", "empty"):
        with pytest.raises(
            errors.PetastormMetadataError, match="Could not find _common_meta"
        ) as caught:
            get_schema_from_dataset_url(f"file://{plain}/{without}")
        assert isinstance(caught.value, errors.DatasetNotFoundError)


def test_hostile_metadata_does_not_execute_code(plain: Path) -> None:
    hostile = {UNISCHEMA_KEY: b"cos\nsystem\n(S'touch hacked'\ntR."}
    schema = pa.schema([("a", pa.int8())]).with_metadata(hostile)
    pq.write_metadata(schema, plain / "_common_metadata")
    with pytest.raises(errors.UnsafePickleError, match=r"global 'os\.system' is forbidden"):
        get_schema_from_dataset_url(f"file://{plain}")
    with pytest.raises(errors.UnsafePickleError):  # there is no fallback to an inferred schema
        infer_or_load_unischema(open_parquet(str(plain)))


def test_row_groups_are_sorted_by_path() -> None:
    ours = load_row_groups(open_parquet(golden_url("partitioned")))
    theirs = load_row_groups(pq.ParquetDataset(GOLDEN / "partitioned"))
    assert [group.path for group in ours] == sorted(group.path for group in ours)
    paths = [str(GOLDEN / "partitioned" / group.path) for group in ours]
    assert paths == [piece.path for piece in theirs]
    with pytest.raises(
        errors.ArgumentTypeError, match="load_row_groups takes a dataset of Parquet"
    ):
        load_row_groups("url")


def test_schema_is_added_to_existing_parquet_files(plain: Path) -> None:
    before = {path: path.read_bytes() for path in plain.rglob("*.parquet")}
    generate_petastorm_metadata(None, f"file://{plain}", f"{__name__}.PARTS")
    assert str(get_schema_from_dataset_url(f"file://{plain}")) == str(PARTS)
    assert {path: path.read_bytes() for path in plain.rglob("*.parquet")} == before
    counts = json.loads(metadata(plain)[ROW_GROUPS_PER_FILE_KEY])
    assert counts == {str(path.relative_to(plain)): 1 for path in before}


def test_generating_metadata_drops_index_of_files_with_other_rows(plain: Path) -> None:
    url = f"file://{plain}"
    generate_petastorm_metadata(None, url, f"{__name__}.PARTS")
    build_rowgroup_index(url, None, [SingleFieldIndexer("by_id", "id")])
    generate_petastorm_metadata(None, url)
    assert ROWGROUPS_INDEX_KEY in metadata(plain)
    path = min(plain.rglob("*.parquet"))  # still has one row group
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)
    generate_petastorm_metadata(None, url)
    assert ROWGROUPS_INDEX_KEY not in metadata(plain)


def test_generating_metadata_keeps_the_existing_schema(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "codecs", tmp_path / "data")
    before = metadata(tmp_path / "data")
    url = (tmp_path / "data").as_uri()
    _main(["--dataset_url", url, "--master", "local", "--use-summary-metadata"])
    after = metadata(tmp_path / "data")
    assert after.keys() == before.keys()
    assert json.loads(after[ROW_GROUPS_PER_FILE_KEY]) == json.loads(before[ROW_GROUPS_PER_FILE_KEY])
    assert indexed(url) == indexed(golden_url("codecs"))
    schema = get_schema_from_dataset_url(url)
    assert str(schema) == str(get_schema_from_dataset_url(golden_url("codecs")))


def test_schema_is_added_to_existing_mds_dataset(plain: Path, tmp_path: Path) -> None:
    mds = str(tmp_path / "mds")
    encodings = {"id": "int32", "vec": "bytes", "split": "str"}
    plan = Schema(tuple(Column(*column) for column in encodings.items()))
    before = convert_parquet(open_parquet(str(plain)), mds, plan=plan)
    generate_petastorm_metadata(None, f"file://{mds}", f"{__name__}.PARTS")
    assert str(get_schema(open_dataset(mds))) == str(PARTS)
    assert open_dataset(mds).to_table() == before.to_table()


OTHER = Unischema("Other", [UnischemaField("other", np.int32, ())])


def test_invalid_or_mismatched_schema_raises_error(plain: Path) -> None:
    for name in ("nothing.at.all", f"{__name__}.UNISCHEMA_KEY"):
        with pytest.raises(errors.InvalidArgumentError, match="dotted path of a Unischema object"):
            generate_petastorm_metadata(None, f"file://{plain}", name)
    with pytest.raises(errors.PetastormMetadataError, match="Could not find"):
        generate_petastorm_metadata(None, f"file://{plain}")
    with pytest.raises(
        errors.MissingColumnError, match="has no column 'other', which the schema declares"
    ):
        generate_petastorm_metadata(None, f"file://{plain}", f"{__name__}.OTHER")
    assert not (plain / "_common_metadata").exists()


def test_entries_are_added_to_existing_metadata(plain: Path) -> None:
    for dataset in (pq.ParquetDataset(plain), open_parquet(str(plain))):
        add_to_dataset_metadata(dataset, b"key", b"value")
        add_to_dataset_metadata(dataset, "other", "text")
        add_to_dataset_metadata(dataset, "key", b"\x00new")
        found = metadata(plain)
        assert (found[b"key"], found[b"other"]) == (b"\x00new", b"text")
        (plain / "_common_metadata").unlink()
