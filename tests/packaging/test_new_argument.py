"""A reader argument that limits the rows of each shard is a patch of two files.

Its hunks end with the lines that they add, so that it still applies if another argument is added at
the same places. If it no longer applies, make its changes by hand, and write it like this again.
"""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_command, run_program
from tests.kit.small_datasets import write_numbers

pytestmark = pytest.mark.newest
ROOT = Path(__file__).parents[2]
PATCH = Path(__file__).with_name("max_rows_per_shard.patch")
PROGRAM = """
import inspect, sys, warnings

from mdstorm import make_batch_reader, make_reader
from mdstorm.errors import StateMismatchError
from mdstorm.spark import SparkDatasetConverter

warnings.simplefilter("ignore")
url = sys.argv[1]
with make_batch_reader(url) as reader:
    sizes, files = reader.dataset.shard_sizes, reader.dataset.file_urls
assert len(sizes) > 2 and min(sizes) > 3, sizes
starts = [sum(sizes[:number]) for number in range(len(sizes))]
expected = [start + row for start in starts for row in range(3)]
converter = SparkDatasetConverter(url, files, sum(sizes))
dataloader = converter.make_torch_dataloader


def numbers(make, **options):
    with make(url, **options) as reader:
        return sorted(int(number) for item in reader for number in item.number.flat)


def error(kind, function, *args, **options):
    try:
        function(*args, **options)
    except kind as error:
        return str(error)
    raise AssertionError("no error")


for order in ("exact", "elastic"):
    options = {"max_rows_per_shard": 3, "num_epochs": 1, "seed": 5, "order": order}
    for make in (make_batch_reader, make_reader):
        assert numbers(make, **options) == expected
        assert numbers(make, shuffle_row_drop_partitions=2, **options) == expected
        above = [("number", ">", starts[1])]
        assert numbers(make, filters=above, **options) == expected[4:]
        assert numbers(make, where=above, **options) == expected[4:]
    shares = [numbers(make, cur_shard=rank, shard_count=2, **options) for rank in range(2)]
    assert sorted({*shares[0], *shares[1]}) == expected

    whole = [batch["number"].tolist() for batch in dataloader(2, **options)]
    first, again = dataloader(2, **options), dataloader(2, **options)
    next(iter(first))
    again.load_state_dict(first.state_dict())
    assert [batch["number"].tolist() for batch in again] == whole[1:]
    for other in (4, None):
        loader = dataloader(2, **{**options, "max_rows_per_shard": other})
        refused = error(StateMismatchError, loader.load_state_dict, first.state_dict())
        assert "different arguments" in refused

for function, *path in [
    (make_batch_reader, url),
    (make_reader, url),
    (dataloader,),
    (converter.make_tf_dataset,),
]:
    assert "max_rows_per_shard: int | None = None" in str(inspect.signature(function))
    assert "\\nmax_rows_per_shard : int, optional\\n" in inspect.getdoc(function)
    for wrong in ("3", True, 0):
        found = error(ValueError, function, *path, max_rows_per_shard=wrong)
        must = "max_rows_per_shard must be an integer of at least 1 or None, found "
        assert found == must + repr(wrong)
"""


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a patched copy of the packages."""
    copy = tmp_path_factory.mktemp("patched")
    for folder in ("compat", "mds_backend"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    run_command("git", "apply", "--unidiff-zero", PATCH, cwd=copy)
    return copy


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_argument_from_a_patch_limits_rows_and_is_checked_shown_and_compared(
    patched: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / kind
    if kind == "mds":
        write_numbers(data, 300)
    else:
        data.mkdir()
        pq.write_table(pa.table({"number": np.arange(40)}), data / "a.parquet", row_group_size=10)
    monkeypatch.setenv("PYTHONPATH", f"{patched / 'compat'}:{patched / 'mds_backend'}")
    run_program(PROGRAM, data.as_uri(), cwd=tmp_path)


def test_patch_of_a_new_argument_changes_at_most_two_files() -> None:
    assert PATCH.read_text().count("\n+++ ") <= 2
