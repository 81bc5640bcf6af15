"""A new argument is declared in one file, and takes effect in another: a patch of two files.

A new step to batches is a class and a line of `read/stages.py`, and an argument of loaders and
readers, declared once. One that adds a column also describes it in `read/steps.py`.

The hunks of these patches end with the lines that they add, so that they still apply if another
argument is added at the same places. If one no longer applies, make its changes by hand, and write
it like this again.
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
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
#: A reader argument, an argument of `StreamingDataset`, and two steps to batches of both, of which
#: one adds a column.
OF_READERS, OF_DATASETS = "max_rows_per_shard.patch", "max_samples.patch"
STEP, COLUMN = "normalize.patch", "hours.patch"
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
    iteration = iter(first)  # kept, since one that is left after a batch would be a peek
    next(iteration)
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


DATASET_PROGRAM = """
import inspect, sys

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import StateMismatchError


def dataset(**options):
    return StreamingDataset(local=sys.argv[1], batch_size=2, order=ExactOrder(), **options)


def error(kind, function, *args, **options):
    try:
        function(*args, **options)
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def numbers(loader):
    return [number for batch in loader for number in batch["number"].tolist()]


def loader(**options):
    return StreamingDataLoader(dataset(**options), batch_size=2)


assert len(dataset()) > 5
assert numbers(loader(max_samples=5)) == [sample["number"] for sample in dataset(max_samples=5)]
assert numbers(loader(max_samples=5)) == list(range(5))
begun, again = loader(max_samples=5), loader(max_samples=5)
iteration = iter(begun)  # kept, since one that is left after a batch would be a peek
next(iteration)
again.load_state_dict(begun.state_dict())
assert numbers(again) == [2, 3, 4]
assert "different" in error(StateMismatchError, loader().load_state_dict, begun.state_dict())

assert inspect.signature(StreamingDataset).parameters["max_samples"].default is None
assert "\\nmax_samples : int, optional\\n" in inspect.getdoc(StreamingDataset)
assert error(ValueError, dataset, max_samples=0) == "max_samples must be at least 1, found 0"
assert "did you mean max_samples?" in error(TypeError, dataset, max_sample=3)
assert "pass max_samples=" in error(AttributeError, setattr, dataset(), "max_samples", 3)
"""


STEP_PROGRAM = """
import inspect, sys

import numpy as np

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset

url = sys.argv[1]


def numbers(batches):
    return [number for batch in batches for number in np.asarray(batch).ravel().tolist()]


dataset = open_dataset(url)
expected = [(number - 10) / 4 for number in range(len(dataset))]
converter = SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
given = {"normalize": {"number": (10.0, 4.0)}}
plain = {"shuffle_row_groups": False, "num_epochs": 1, **given}
above = {"filters": [("number", ">", 7)], "transform_spec": TransformSpec(lambda frame: frame)}
for first, options in [
    (0, {}),
    (0, {"features": ["number"], "stack": True}),
    (8, above),
    (8, {**above, "reader_pool_type": "process"}),
]:
    with converter.make_torch_dataloader(batch_size=4, **plain, **options) as loader:
        batches = (batch["number"] if isinstance(batch, dict) else batch for batch in loader)
        assert numbers(batches) == expected[first:]
with make_batch_reader(url, **plain) as reader:
    assert numbers(item.number for item in reader) == expected
source = StreamingDataset(local=url[7:], batch_size=4, order=ExactOrder(), **given)
assert numbers(batch["number"] for batch in StreamingDataLoader(source, batch_size=4)) == expected
assert source[14]["number"] == 1
for function in (StreamingDataset, make_batch_reader, converter.make_tf_dataset):
    assert inspect.signature(function).parameters["normalize"].default is None
    assert "\\nnormalize : mapping of str to (float, float)" in inspect.getdoc(function)
"""


COLUMN_PROGRAM = """
import sys

import numpy as np

from mdstorm import TransformSpec, convert, make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

url = sys.argv[1]
given = {"hours": {"hour": "time"}}
plain = {"shuffle_row_groups": False, "num_epochs": 1, **given}
expected = [number % 24 for number in range(60)]


def hours(batches):
    found = [batch["hour"] if isinstance(batch, dict) else batch.hour for batch in batches]
    return [hour for each in found for hour in np.asarray(each).ravel().tolist()]


def loader(**options):
    without = TransformSpec(removed_fields=["time"], keeps_rows=True)  # PyTorch has no times
    made = make_spark_converter(url)
    return made.make_torch_dataloader(4, **plain, **{"transform_spec": without, **options})


for make in (make_batch_reader, make_reader):
    for fields in (None, ["hour", "time"]):
        with make(url, schema_fields=fields, **plain) as reader:
            assert hours(reader) == expected
            assert reader.schema.fields["hour"].numpy_dtype is np.int64
with make_batch_reader(url, filters=[("number", ">", 7)], **plain) as reader:
    assert hours(reader) == expected[8:]
assert hours(loader()) == expected
assert hours(loader(reader_pool_type="process")) == expected
shares = [hours(loader(cur_shard=rank, shard_count=2)) for rank in range(2)]
assert shares == [expected[:30], expected[30:]]
for labels in ("hour", "number"):
    batches = loader(transform_spec=None, features=["hour"], labels=labels)
    assert hours(x for x, _ in batches) == expected
pairs = loader(transform_spec=None, features=["number"], labels="number")
assert [name for x, _ in pairs for name in x] == ["number"] * 15
interrupted, resumed = loader(shuffle_rows=True, seed=7), loader(shuffle_rows=True, seed=7)
batches = iter(interrupted)
begun = hours([next(batches), next(batches)])
resumed.load_state_dict(interrupted.state_dict())
assert begun + hours(resumed) == hours(loader(shuffle_rows=True, seed=7))

convert(url, "mds", progress=False)
for columns in (None, ["hour", "time"]):
    order = ExactOrder()
    source = StreamingDataset(local="mds", batch_size=4, order=order, columns=columns, **given)
    assert source[30]["hour"] == 6
    assert hours(StreamingDataLoader(source, batch_size=4)) == expected

for wrong, words in [
    ({"hour": "tim"}, "is made from 'tim', which is not read: did you mean time?"),
    ({"number": "time"}, "column 'number' would replace one of"),
]:
    try:
        make_batch_reader(url, hours=wrong)
    except (TypeError, ValueError) as error:
        assert words in str(error), error
    else:
        raise AssertionError("no error")
"""


@pytest.fixture
def patched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let programs import a copy of the packages with a patch."""
    for folder in ("compat", "mds_backend"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    run_command("git", "apply", "--unidiff-zero", FOLDER / request.param, cwd=tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'compat'}:{tmp_path / 'mds_backend'}")


@pytest.mark.long
@pytest.mark.parametrize("patched", [OF_READERS], indirect=True)
@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_reader_argument_limits_rows_and_is_checked_shown_and_compared(
    patched: None, kind: str, tmp_path: Path
) -> None:
    data = tmp_path / kind
    if kind == "mds":
        write_numbers(data, 300)
    else:
        data.mkdir()
        pq.write_table(pa.table({"number": np.arange(40)}), data / "a.parquet", row_group_size=10)
    run_program(PROGRAM, data.as_uri(), cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("patched", [OF_DATASETS], indirect=True)
def test_dataset_argument_limits_samples_and_is_checked_shown_and_compared(
    patched: None, tmp_path: Path
) -> None:
    write_numbers(tmp_path / "mds", 300)
    run_program(DATASET_PROGRAM, str(tmp_path / "mds"), cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("patched", [STEP], indirect=True)
def test_step_changes_batches_and_samples_of_both_front_ends(patched: None, tmp_path: Path) -> None:
    write_numbers(tmp_path / "mds", 30)
    run_program(STEP_PROGRAM, (tmp_path / "mds").as_uri(), cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("patched", [COLUMN], indirect=True)
def test_step_adds_a_column_to_readers_loaders_and_datasets(patched: None, tmp_path: Path) -> None:
    times = np.arange(60).astype("datetime64[h]").astype("datetime64[us]")
    table = pa.table({"number": np.arange(60), "time": times})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    run_program(COLUMN_PROGRAM, (tmp_path / "a.parquet").as_uri(), cwd=tmp_path)


def test_step_is_a_class_a_line_and_a_declaration() -> None:
    patch = (FOLDER / STEP).read_text()
    added = [line[1:] for line in patch.splitlines() if line.startswith("+") and line[1:2] != "+"]
    assert sum(line.startswith("class ") for line in added) == 1
    assert [line for line in added if "[Normalize(" in line] == [
        "    last += [Normalize(steps.normalize)] if steps.normalize else []"
    ]
    run_command("git", "apply", "--check", "--unidiff-zero", FOLDER / STEP, cwd=ROOT)


@pytest.mark.parametrize(("name", "files"), [(OF_READERS, 2), (OF_DATASETS, 2), (COLUMN, 5)])
def test_patch_of_a_new_argument_applies_and_changes_few_files(name: str, files: int) -> None:
    assert (FOLDER / name).read_text().count("\n+++ ") <= files
    run_command("git", "apply", "--check", "--unidiff-zero", FOLDER / name, cwd=ROOT)
