"""A kind of data in one module is opened by all that opens data, without other changes."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_program

PROGRAM = """
import sys

import file_list
from mdstorm import convert, make_batch_reader, open_dataset
from mdstorm.errors import DatasetNotFoundError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataset
from mdstorm_backend.kinds import what_is_at

url = sys.argv[1] + "/train.files"
expected = [*range(10, 20), *range(10)]
assert open_dataset(url).to_table()["id"].to_pylist() == expected
options = {"num_epochs": 1, "shuffle_row_groups": False}
with make_batch_reader(url, **options) as reader:
    assert [number for batch in reader for number in batch.id.tolist()] == expected


def loader():
    return make_spark_converter(url).make_torch_dataloader(4, **options)


def numbers(batches):
    return [number for batch in batches for number in batch["id"].tolist()]


interrupted, resumed = loader(), loader()
batches = iter(interrupted)
begun = numbers([next(batches), next(batches)])
resumed.load_state_dict(interrupted.state_dict())
assert begun + numbers(resumed) == expected
assert len(convert(url, sys.argv[1] + "/mds", progress=False)) == 20
assert what_is_at(url) == "a list of Parquet files"
try:
    len(StreamingDataset(remote=url))
except DatasetNotFoundError as error:
    assert "but a list of Parquet files. Convert it with: mdstorm convert" in str(error), error
else:
    raise AssertionError("no error")
"""


@pytest.mark.long
@pytest.mark.newest
def test_kind_of_one_module_is_opened_read_resumed_converted_and_named(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 10)):
        pq.write_table(pa.table({"id": range(first, first + 10)}), tmp_path / f"{name}.parquet")
    shutil.copy(Path(__file__).with_name("file_list.py"), tmp_path)
    (tmp_path / "train.files").write_text("b.parquet\na.parquet\n")
    run_program(PROGRAM, tmp_path.as_uri(), cwd=tmp_path)
