"""`reader.dataset`: what Petastorm's readers have under this name."""

import copy
import pickle
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.compat.readers import write_parquet
from tests.mds_backend.small_datasets import write_numbers

from mdstorm.errors import MissingAttributeError
from mdstorm.predicates import in_set
from mdstorm.reader import Reader, make_batch_reader, make_reader


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two partitions of one file each."""
    for day in (1, 2):
        write_parquet(tmp_path / f"day={day}", {"id": range(10 * day)})
    return tmp_path


def opened(directory: Path | list[str], **arguments: object) -> Reader:
    urls = directory if isinstance(directory, list) else f"file://{directory}"
    return make_batch_reader(urls, **arguments)  # type: ignore[arg-type]


def test_its_files(directory: Path) -> None:
    with opened(directory) as reader:
        dataset = reader.dataset
        files = [f"{directory}/day={day}/part.parquet" for day in (1, 2)]
        assert dataset.files == files
        assert dataset.paths == str(directory)
        assert [piece.path for piece in dataset.pieces] == files
        assert [piece.partition_keys for piece in dataset.pieces] == [[("day", 1)], [("day", 2)]]
        assert {piece.row_group for piece in dataset.pieces} == {None}
        assert dataset.fs.exists(files[0])
        assert dataset.schema.names == ["day", "id"]
        assert dataset.schema.field("id").type == pa.int64()


def test_it_is_whole_where_less_is_read(directory: Path) -> None:
    arguments = {"predicate": in_set([2], "day"), "shuffle_row_drop_partitions": 2}
    with opened(directory, **arguments) as reader:
        assert [len(reader.dataset), len(reader.dataset.pieces)] == [20, 2]


def test_shards_of_mds(tmp_path: Path) -> None:
    stored = write_numbers(tmp_path / "mds", 500)
    with opened(tmp_path / "mds") as reader:
        dataset = reader.dataset
        assert [f"file://{path}" for path in dataset.files] == stored.file_urls
        assert [piece.path for piece in dataset.pieces] == dataset.files
        assert dataset.paths == str(tmp_path / "mds")
        assert dataset.schema == stored.schema.arrow_schema
        assert (len(dataset), dataset.fingerprint) == (500, stored.fingerprint)
        with pytest.raises(MissingAttributeError, match=r"no 'fragments'.*: use pieces"):
            _ = dataset.fragments


def test_the_schema_of_a_dataset_that_is_decoded_is_that_of_its_files() -> None:
    codecs = Path(__file__).parents[1] / "etl" / "golden" / "codecs"
    with make_reader(codecs.as_uri()) as reader:
        assert pa.types.is_binary(reader.dataset.schema.field("png").type)


def test_missing_attributes_name_what_to_use(directory: Path) -> None:
    with opened(directory) as reader:
        with pytest.raises(MissingAttributeError, match=r"no 'partitions'.*partition_keys"):
            _ = reader.dataset.partitions
        assert not hasattr(reader.dataset, "read")
        with pytest.raises(AttributeError, match="nothing"):
            _ = reader.dataset.nothing


def test_copies(directory: Path) -> None:
    with opened(directory) as reader:
        for again in (copy.copy(reader.dataset), pickle.loads(pickle.dumps(reader.dataset))):  # noqa: S301
            assert again.files == reader.dataset.files


def test_another_file_system(directory: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/read-dataset/0.parquet", (directory / "day=1" / "part.parquet").read_bytes())
    with make_batch_reader("memory://read-dataset") as reader:
        assert pq.read_table(reader.dataset.files[0], filesystem=reader.dataset.fs).num_rows == 10
    memory.rm("/read-dataset", recursive=True)
