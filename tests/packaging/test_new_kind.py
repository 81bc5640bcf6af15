"""A kind of data in one module is opened by all that opens data, without other changes."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_program

#: Begins each program, with the kind's module and the URL.
READ = """
import sys
from importlib import import_module

from mdstorm import convert, make_batch_reader, open_dataset
from mdstorm.errors import DatasetNotFoundError, InvalidArgumentError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataset
from mdstorm_backend.kinds import what_is_at

import_module(sys.argv[1])
url, kind = sys.argv[2:4]
expected = [*range(10, 20), *range(10)]
assert open_dataset(url).to_table()["id"].to_pylist() == expected
options = {"num_epochs": 1, "shuffle_row_groups": False}
with make_batch_reader(url, **options) as reader:
    assert [number for batch in reader for number in batch.id.tolist()] == expected


def loader(**others):
    return make_spark_converter(url).make_torch_dataloader(4, **options, **others)


def numbers(batches):
    return [number for batch in batches for number in batch["id"].tolist()]


interrupted, resumed = loader(), loader()
batches = iter(interrupted)
begun = numbers([next(batches), next(batches)])
resumed.load_state_dict(interrupted.state_dict())
assert begun + numbers(resumed) == expected
ranks = [loader(cur_shard=rank, shard_count=2, shuffle_rows=True, seed=7) for rank in range(2)]
assert sorted(number for rank in ranks for number in numbers(rank)) == sorted(expected)
assert numbers(loader(where=[("id", "<", 3)])) == [0, 1, 2]
assert numbers(loader(filters=[("id", "<", 3)])) == [0, 1, 2]
assert what_is_at(url) == kind


def refused(call, error, text):
    try:
        call()
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError("no error")


"""
LISTED = """
assert len(convert(url, "mds", progress=False)) == 20
text = "but a list of Parquet files. Convert it with: mdstorm convert"
refused(lambda: len(StreamingDataset(remote=url)), DatasetNotFoundError, text)
"""
ARRAYS = """
text = "is a directory of NumPy files, not Parquet, so it cannot be converted"
refused(lambda: convert(url, "mds", progress=False), InvalidArgumentError, text)
text = "but a directory of NumPy files. Read it in place with mdstorm.make_batch_reader"
refused(lambda: len(StreamingDataset(remote=url)), DatasetNotFoundError, text)
"""


def run_with(module: str, path: Path, url: str, kind: str, program: str) -> None:
    """Run a program in a directory that has the kind's module."""
    shutil.copy(Path(__file__).with_name(f"{module}.py"), path)
    run_program(READ + program, module, url, kind, cwd=path)


@pytest.mark.long
@pytest.mark.newest
def test_kind_of_one_module_is_opened_read_resumed_converted_and_named(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 10)):
        pq.write_table(pa.table({"id": range(first, first + 10)}), tmp_path / f"{name}.parquet")
    (tmp_path / "train.files").write_text("b.parquet\na.parquet\n")
    url = f"{tmp_path.as_uri()}/train.files"
    run_with("file_list", tmp_path, url, "a list of Parquet files", LISTED)


@pytest.mark.long
@pytest.mark.newest
def test_kind_without_parquet_files_is_opened_read_resumed_and_named(tmp_path: Path) -> None:
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    (arrays / "_ARRAYS").touch()
    np.save(arrays / "id.npy", np.arange(20).reshape(2, 10)[::-1].ravel())
    np.save(arrays / "x.npy", np.ones(20, np.float32))
    run_with("array_folder", tmp_path, arrays.as_uri(), "a directory of NumPy files", ARRAYS)
