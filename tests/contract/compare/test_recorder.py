"""The recorder's digests, and how it runs a program."""

import ast
import datetime
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdstorm_migrate.compare import recorder
from mdstorm_migrate.compare.recorder import PassTotals, rows_of
from mdstorm_migrate.compare.recordings import RecordedColumn

SOURCE = Path(recorder.__file__)
#: Digest of the batch in `KNOWN_BATCH`, as computed on Python 3.7 with NumPy 1.17.5.
KNOWN = "bcc6298abf5e78aa586d8b9c346803a5"
_DAY = datetime.date(2021, 3, 1)
_TIME = datetime.datetime(2021, 3, 1, 12, 30, 0, 250)
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
OLD_PYTHONS = sorted(
    str(python) for name in ("3.[789].*", "3.10.*") for python in _PYENV.glob(f"{name}/bin/python")
)
#: Old versions of Python and NumPy from `benchmarks/make_environments.sh recorder petastorm`.
_ENVIRONMENTS = SOURCE.parents[3] / "benchmarks" / ".environments"
WITH_NUMPY = [
    sys.executable,
    *map(str, sorted(_ENVIRONMENTS.glob("petastorm/bin/python"))),
    *map(str, sorted(_ENVIRONMENTS.glob("recorder-*/bin/python"))),
]


def digest_of(*batches: dict[str, Any]) -> tuple[str, dict[str, str]]:
    found = PassTotals(is_batched=True)
    for batch in batches:
        found.add(batch)
    value = found.to_json()
    return value["digest"], {name: each["digest"] for name, each in value["columns"].items()}


columns = st.integers(2, 30).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            "i": hnp.arrays(np.int64, rows),
            "f": hnp.arrays(np.float32, (rows, 2)),
            "s": st.lists(st.text(max_size=4), min_size=rows, max_size=rows),
        }
    )
)


@given(columns, st.integers(1, 29), st.randoms(use_true_random=False))
def test_digest_does_not_depend_on_batches_or_order(batch: Any, cut: int, random: Any) -> None:
    rows = list(range(len(batch["i"])))
    random.shuffle(rows)

    def part(numbers: Sequence[int]) -> dict[str, Any]:
        taken = {name: batch[name][list(numbers)] for name in ("i", "f")}
        return {**taken, "s": [batch["s"][number] for number in numbers]}

    parts = [each for each in (rows[:cut], rows[cut:]) if each]
    assert digest_of(batch) == digest_of(*map(part, parts))


@given(columns, st.data())
def test_digest_depends_on_each_value(batch: Any, data: Any) -> None:
    row = data.draw(st.integers(0, len(batch["i"]) - 1))
    changed = {name: values.copy() for name, values in batch.items()}
    changed["i"][row] ^= data.draw(st.sampled_from([1, 2**40, -(2**62)]))
    before, after = digest_of(batch), digest_of(changed)
    assert before[0] != after[0]
    assert before[1]["i"] != after[1]["i"]
    assert before[1]["f"] == after[1]["f"]


@given(columns)
def test_digest_of_rows_changes_if_values_move_to_other_rows(batch: Any) -> None:
    changed = {**batch, "i": np.roll(batch["i"], 1)}
    before, after = digest_of(batch), digest_of(changed)
    assert before[1] == after[1]
    pairs = [
        sorted(zip(each["i"].tolist(), map(bytes, each["f"]), each["s"], strict=True))
        for each in (batch, changed)
    ]
    nan_free = not np.isnan(batch["f"]).any()
    if nan_free:
        assert (before[0] == after[0]) == (pairs[0] == pairs[1])


def test_rest_of_a_column_is_the_digest_of_rows_without_that_column() -> None:
    both, one = PassTotals(is_batched=True), PassTotals(is_batched=True)
    numbers, texts = np.arange(4), ["a", "b", "c", "d"]
    both.add({"i": numbers, "s": texts})
    one.add({"s": texts})
    assert both.to_json()["columns"]["i"]["rest"] == one.to_json()["digest"]


def test_ordered_digest_depends_on_order_but_not_on_batches() -> None:
    def ordered(*parts: list[int]) -> str:
        found = PassTotals(is_batched=True)
        for part in parts:
            found.add({"i": np.array(part)})
        digest: str = found.to_json()["columns"]["i"]["ordered"]
        return digest

    assert ordered([1, 2, 3]) == ordered([1], [2, 3])
    assert len({ordered([1, 2, 3]), ordered([1, 3, 2]), ordered([1], [3], [2])}) == 2


def test_each_repetition_of_a_row_changes_the_digest() -> None:
    row = {"i": np.array([5])}
    assert len({digest_of(*[row] * times)[0] for times in (1, 2, 3, 4)}) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1, 2], np.int8), np.array([1.0, 2.0])),
        (np.array([True, False]), np.array([1, 0], np.uint8)),
        (np.array([1.5], np.float32), [1.5]),
        (np.array([np.nan, 1.0]), [None, 1]),
        (np.array([2**60]), [2**60]),
        (np.array([-(2**60)]), [np.int64(-(2**60))]),
        (np.array(["a", "bc"]), np.array(["a", "bc"], object)),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        (np.array(["2021-03-01"], "datetime64[D]"), [_DAY]),
        (np.array(["2021-03-01T12:30:00.000250"], "datetime64[us]"), [_TIME]),
        ([_TIME], [_TIME.replace(tzinfo=datetime.timezone.utc)]),
        ([Decimal("2.50")], ["2.50"]),
        (np.array([[1, 2], [3, 4]]), [np.array([1, 2]), np.array([3.0, 4.0])]),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array([["a", "b"]], object), [["a", "b"]]),
        (np.array([np.timedelta64(1, "s")]), [datetime.timedelta(seconds=1)]),
    ],
)
def test_equal_values_of_different_types_have_the_same_digest(one: Any, other: Any) -> None:
    assert rows_of(one).hashes.tolist() == rows_of(other).hashes.tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0.0], [-0.0]),
        ([1], [None]),
        (["1"], [1]),
        ([[1, 2]], [[2, 1]]),
        ([[1, 2], [3]], [[1], [2, 3]]),
        ([np.zeros((2, 1))], [np.zeros((1, 2))]),
        (["a"], ["a "]),
        ([2**53 + 1], [2**53 + 2]),
        ([None], ["None"]),
    ],
)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    assert rows_of(one).hashes.tolist() != rows_of(other).hashes.tolist()


def test_nulls_are_counted_and_left_out_of_sums() -> None:
    found = PassTotals(is_batched=True)
    days = np.array(["1970-01-03", "NaT", "NaT"], "datetime64[D]")
    found.add({"f": np.array([1.0, np.nan, 3.0]), "t": days, "s": ["a", None, None]})
    columns = found.to_json()["columns"]
    assert {name: column["nulls"] for name, column in columns.items()} == {"f": 1, "t": 2, "s": 2}
    names = ("minimum", "maximum", "sum", "magnitude", "squares")
    assert [columns["f"][name] for name in names] == [1, 3, 4, 4, 10]
    assert [columns["t"][name] for name in names] == [2, 2, 2, 2, 4]
    assert "sum" not in columns["s"]


def test_infinite_statistics_are_recorded_as_text() -> None:
    one = PassTotals(is_batched=True)
    one.add({"x": np.array([1.0, np.inf, -np.inf])})
    column = json.loads(json.dumps(one.to_json(), allow_nan=False))["columns"]["x"]
    numbers = [column[name] for name in ("minimum", "maximum", "sum", "magnitude", "squares")]
    assert numbers == ["-inf", "inf", "nan", "inf", "inf"]
    found = RecordedColumn.from_json(column).numbers
    assert found is not None
    assert found[:2] == (-np.inf, np.inf)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "datetime64[ns]", "timedelta64[ns]"])
def test_number_with_the_bits_of_nan_is_not_counted_as_null(dtype: str) -> None:
    number = 0x7FF8_0000_0000_DEAD
    rows = rows_of(np.array([number], np.int64).astype(dtype))
    assert rows.nulls == 0
    assert rows.numbers.tolist() == [float(number)]


def test_dtypes_of_subclasses_and_complex_numbers_are_recorded() -> None:
    second = pd.Timedelta(1, "s")
    assert rows_of([second, second]).dtypes == {"timedelta"}
    assert rows_of([np.complex64(1)]).dtypes == {"complex64"}
    assert rows_of(np.array([1j])).dtypes == {"complex128"}


def test_ragged_arrays_have_same_hashes_as_arrays_of_equal_length() -> None:
    together = rows_of(np.array([[1, 2], [3, 4]]))
    apart = rows_of([np.array([1, 2]), np.array([3, 4]), np.array([5])])
    assert together.hashes.tolist() == apart.hashes.tolist()[:2]


def test_single_rows_have_same_digest_as_batch() -> None:
    rows = PassTotals(is_batched=False)
    for number in range(1300):
        rows.add({"i": np.int32(number), "a": np.arange(number, number + 2)})
    rows.flush()
    numbers = np.arange(1300, dtype=np.int32)
    assert rows.rows == 1300
    batch = {"i": numbers, "a": np.stack([numbers, numbers + 1], 1)}
    assert rows.to_json()["digest"] == digest_of(batch)[0]


def test_row_changed_after_reading_is_hashed_as_it_was_read() -> None:
    rows = PassTotals(is_batched=False)
    value = np.array([1, 2])
    rows.add({"a": value})
    value += 1
    rows.flush()
    assert rows.to_json()["columns"]["a"]["digest"] == digest_of({"a": np.array([[1, 2]])})[1]["a"]


def test_recorded_examples_are_the_same_for_any_order_of_rows() -> None:
    found = []
    for order in (1, -1):
        one = PassTotals(is_batched=True, examples=3)
        for number in range(50)[::order]:
            one.add({"i": np.array([number])})
        found.append(one.to_json()["examples"])
    assert found[0] == found[1]
    assert len(found[0]) == 3


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("s3://key:secret@bucket/path?token=secret", "str"),
        (["s3://key:secret@bucket/path", "plain"], "list"),
        ({"aws_secret_access_key": "secret"}, "dict"),
        ([("name", "=", "secret")], "list"),
        ("process", "process"),
        (None, None),
        (3, 3),
        (0.5, 0.5),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
    ],
)
def test_arguments_are_recorded_as_json_without_secrets(argument: object, written: object) -> None:
    def make(argument: object) -> None: ...

    call = recorder.Call(make, inspect.signature(make).bind(argument))
    assert call.to_json() == {"argument": written}


def test_recorder_uses_only_python_3_7_syntax() -> None:
    tree = ast.parse(SOURCE.read_text("utf-8"), feature_version=(3, 7))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
    }
    assert imported <= {"numpy", "tensorflow", *sys.stdlib_module_names}


@pytest.mark.parametrize("python", OLD_PYTHONS)
def test_recorder_compiles_on_old_pythons(python: str) -> None:
    command = [python, "-c", "import sys; compile(sys.stdin.read(), 'r', 'exec')"]
    source = SOURCE.read_text("utf-8")
    done = subprocess.run(command, input=source, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


#: A stand-in for the parts of Petastorm that the recorder patches, with an endless reader.
KNOWN_BATCH = """
import datetime
import itertools
from decimal import Decimal
import numpy as np

class Reader:
    batched_output = True

    def __init__(self, num_epochs):
        self.num_epochs = num_epochs

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __iter__(self):
        for _ in range(self.num_epochs) if self.num_epochs else itertools.count():
            yield {
                "i": np.array([1, -(2**60)]),
                "f": np.array([[0.5, np.nan], [1.5, 2.0]], np.float32),
                "s": ["ä", None],
                "t": [datetime.date(2021, 3, 1), datetime.datetime(2021, 3, 1, 12, 30, 0, 250)],
                "d": [Decimal("1.50"), Decimal(2)],
                "o": [{"k": [1, "x"]}, {"k": []}],
            }

def make_batch_reader(dataset_url, num_epochs=1):
    return Reader(num_epochs)
"""
READS_IT = """
from petastorm.reader import make_batch_reader
with make_batch_reader("file:///data", num_epochs=None) as reader:
    next(iter(reader))
"""


@pytest.mark.parametrize("python", WITH_NUMPY)
def test_recording_of_known_batch_is_the_same_in_every_version(python: str, tmp_path: Path) -> None:
    (tmp_path / "petastorm").mkdir()
    (tmp_path / "petastorm" / "__init__.py").touch()
    (tmp_path / "petastorm" / "reader.py").write_text(KNOWN_BATCH, "utf-8")
    (tmp_path / "train.py").write_text(READS_IT)
    command = [python, "-W", "error", str(SOURCE), "--runs", "1", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    (loader,) = run["loaders"]
    assert (loader["data"]["digest"], loader["passes"]) == (KNOWN, [[1, 2, False]])
    columns = loader["data"]["columns"].values()
    assert [column["dtypes"] for column in columns] == [
        ["int64"],
        ["float32"],
        ["str"],
        ["date", "datetime"],
        ["Decimal"],
        ["int", "str"],
    ]


def run_recorder(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SOURCE), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.long
def test_program_without_loaders_is_recorded_twice(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = run_recorder("train.py", "--runs", "3", cwd=tmp_path)
    assert done.stdout == "__main__ ['--runs', '3']\n" * 2
    found = json.loads((tmp_path / "train.recording.json").read_text())
    assert [run["loaders"] for run in found["runs"]] == [[], []]
    assert found["program"] == "train.py"
    assert "record: the program created no Petastorm or mdstorm loader" in done.stderr


def test_recorder_with_m_option_runs_a_module(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = run_recorder("--runs", "1", "-m", "job", "-x", cwd=tmp_path)
    assert done.stdout == "__main__ ['-x']\n"
    assert (tmp_path / "job.recording.json").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("last", "code", "ended"),
    [("raise KeyError('x')", 1, "KeyError"), ("sys.exit(3)", 3, "exit code 3")],
)
def test_failing_program_still_writes_its_recording(
    last: str, code: int, ended: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"import sys\n{last}\n")
    done = run_recorder("train.py", cwd=tmp_path, code=code)
    assert f"record: the program ended with {ended}: later loaders are missing" in done.stderr
    found = json.loads((tmp_path / "train.recording.json").read_text())
    assert [run["ended"] for run in found["runs"]] == [ended]


#: A stand-in for the parts of Petastorm that the recorder patches, with loaders that read a file.
LIBRARY = """
import numpy as np

class Loader:
    def __init__(self, path, epochs):
        self.path, self.epochs = path, epochs

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __iter__(self):
        print("read epochs:", self.epochs)
        for value in open(self.path):
            yield {"x": np.array([float(value)])}

class SparkDatasetConverter:
    def __init__(self, path):
        self.path = path

    def make_torch_dataloader(self, num_epochs=None):
        return Loader(self.path, num_epochs)

    def delete(self):
        print("delete")
"""
DELETES = """
import sys
from petastorm.spark.spark_dataset_converter import SparkDatasetConverter

for path in sys.argv[1:]:
    converter = SparkDatasetConverter(path)
    {reads}
    converter.delete()
"""
CLOSES = "with converter.make_torch_dataloader() as loader: next(iter(loader))"
DOES_NOT_CLOSE = "next(iter(converter.make_torch_dataloader().__enter__()))"


@pytest.mark.parametrize("reads", [CLOSES, DOES_NOT_CLOSE])
def test_full_pass_is_read_before_a_converter_is_deleted(reads: str, tmp_path: Path) -> None:
    """If the files were deleted first, Petastorm would wait 30 seconds for them."""
    package = tmp_path / "petastorm" / "spark"
    package.mkdir(parents=True)
    (package / "spark_dataset_converter.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(DELETES.format(reads=reads))
    paths = [str(tmp_path / name) for name in ("one", "other")]
    for path in paths:
        Path(path).write_text("1\n2\n")
    command = [sys.executable, str(SOURCE), "--runs", "1", "train.py", *paths]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    once = ["read epochs: None", "read epochs: 1", "delete"]
    assert done.stdout.splitlines() == once * 2


def run_with_converter(program: str, tmp_path: Path, code: int = 0) -> list[str]:
    """Record a program that uses `LIBRARY` and a file with two rows; return its output."""
    package = tmp_path / "petastorm" / "spark"
    package.mkdir(parents=True)
    (package / "spark_dataset_converter.py").write_text(LIBRARY)
    head = "from petastorm.spark.spark_dataset_converter import SparkDatasetConverter\n"
    (tmp_path / "train.py").write_text(head + program)
    (tmp_path / "rows").write_text("1\n2\n")
    command = [sys.executable, str(SOURCE), "--runs", "1", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()


def test_full_pass_for_loader_is_not_read_when_another_converter_is_deleted(
    tmp_path: Path,
) -> None:
    program = """
next(iter(SparkDatasetConverter("rows").make_torch_dataloader()))
SparkDatasetConverter("rows").delete()
"""
    assert run_with_converter(program, tmp_path) == [
        "read epochs: None",
        "delete",
        "read epochs: 1",
    ]


def test_program_ended_by_ctrl_c_reads_no_full_pass_and_replaces_an_older_recording(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.recording.json").write_text('{"runs": [1]}')
    program = """
next(iter(SparkDatasetConverter("rows").make_torch_dataloader()))
raise KeyboardInterrupt
"""
    assert run_with_converter(program, tmp_path, code=130) == ["read epochs: None"]
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    assert run["ended"] == "KeyboardInterrupt"


_KILLS = "import os, signal\nos.kill({process}, signal.SIGKILL)\n"


# With one run, the parent is the process of this test.
@pytest.mark.long
@pytest.mark.parametrize(
    ("runs", "process"),
    [("1", "os.getpid()"), ("2", "os.getpid()"), ("2", "os.getppid()")],
)
def test_killed_recording_keeps_the_earlier_one(runs: str, process: str, tmp_path: Path) -> None:
    command = [sys.executable, str(SOURCE), "--runs", runs, "train.py"]
    path = tmp_path / "train.recording.json"
    (tmp_path / "train.py").touch()
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    earlier = path.read_text()
    (tmp_path / "train.py").write_text(_KILLS.format(process=process))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode
    assert path.read_text() == earlier
    (tmp_path / "train.py").write_text("")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert [*json.loads(path.read_text())] == [*json.loads(earlier)]
    assert not [*tmp_path.glob("*unfinished*")]


@pytest.mark.parametrize(
    "names",
    [
        ("RANK", "WORLD_SIZE"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ],
)
def test_rank_is_read_from_variables_of_each_launcher(
    names: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("")
    command = [sys.executable, str(SOURCE), "--output", "a.b.json", "train.py"]
    environment = {**os.environ, **dict(zip(names, ("1", "4"), strict=True))}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "a.b.rank-1.json"}


def test_more_than_eight_shapes_in_a_column_are_not_listed() -> None:
    for count, shapes in ((8, 8), (9, 1)):
        found = PassTotals(is_batched=True)
        found.add({"x": [np.zeros(length) for length in range(count)]})
        assert len(found.to_json()["columns"]["x"]["shapes"]) == shapes


#: A stand-in for the parts of Petastorm that the recorder patches, with a reader that uses a pool.
POOL = """
class Reader:
    batched_output = True

    def __init__(self, reader_pool_type):
        print("pool", reader_pool_type)

    def __iter__(self):
        return iter([])

def make_batch_reader(url, reader_pool_type="thread"):
    return Reader(reader_pool_type)
"""


@pytest.mark.parametrize("given", ["", ", 'process'", ", reader_pool_type='thread'"])
def test_petastorm_reads_without_a_pool_while_it_is_recorded(given: str, tmp_path: Path) -> None:
    """Petastorm's thread pool may end before it has read all rows."""
    (tmp_path / "petastorm").mkdir()
    (tmp_path / "petastorm" / "reader.py").write_text(POOL)
    program = f"from petastorm.reader import make_batch_reader\nmake_batch_reader('x'{given})\n"
    (tmp_path / "train.py").write_text(program)
    command = [sys.executable, str(SOURCE), "--runs", "1", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.splitlines()} == {"pool dummy"}
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    pools = [one["arguments"].get("reader_pool_type", "") for one in run["loaders"]]
    assert pools == [given.rpartition("'")[0].rpartition("'")[2]]


#: A stand-in for the parts of Petastorm that the recorder patches, with readers of three rows.
READERS = """
import itertools
import random

class Reader:
    def __init__(self, epochs, batched):
        self.batched_output = batched
        self.rows = (
            {"x": [row, epoch] if batched else row}
            for epoch in (itertools.count() if epochs is None else range(epochs))
            for row in random.sample(range(3), 3)
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.rows)

def make_reader(url, num_epochs=1):
    return Reader(num_epochs, False)

def make_batch_reader(url, num_epochs=1):
    return make_reader(url, num_epochs) if url is None else Reader(num_epochs, True)
"""
LOADERS = """
class DataLoader:
    def __init__(self, reader, batch_size=1):
        self.reader = reader

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.reader.__exit__(*error)

    def __iter__(self):
        for row in self.reader:
            yield {"x": [row["x"]]}
"""
MAKES_LOADERS = """
import random
from petastorm.pytorch import DataLoader
from petastorm.reader import make_batch_reader, make_reader

class Child(DataLoader):
    def __init__(self, reader):
        self.extra = 1
        super().__init__(reader)

    def __iter__(self):
        for batch in super().__iter__():
            yield {**batch, "y": [self.extra]}

def take(items, count=None):
    for step, item in enumerate(items, 1):
        if step == count:
            break

def of_rows():
    take(make_reader("x"))

def of_rows_in_part():
    take(make_reader("x", num_epochs=2), 1)

def of_endless_rows():
    take(make_reader("x", num_epochs=None), 7)

def of_batches():
    for epoch in range(2):
        take(make_batch_reader("x"))

def of_nested_calls():
    take(make_batch_reader(None))

def of_loader():
    take(DataLoader(make_reader("x", 2)), 1)

def of_child():
    with Child(make_reader("x")) as loader:
        take(loader)

def of_child_in_part():
    reader = make_reader("x")
    with Child(reader) as loader:
        take(loader, 1)
    assert loader.reader is reader

for function in [*globals().values()]:
    if getattr(function, "__name__", "").startswith("of_"):
        function()
print(random.random())
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A directory with a stand-in for `petastorm`, and a program that uses it."""
    (tmp_path / "petastorm").mkdir()
    (tmp_path / "petastorm" / "reader.py").write_text(READERS)
    (tmp_path / "petastorm" / "pytorch.py").write_text(LOADERS)
    (tmp_path / "train.py").write_text(MAKES_LOADERS)
    return tmp_path


def record_with(library: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Record the program; return its loaders, grouped by the function that makes them."""
    command = [sys.executable, str(SOURCE), "--runs", "1", *arguments, "train.py"]
    done = subprocess.run(command, cwd=library, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((library / "train.recording.json").read_text())["runs"]
    found: dict[str, list[dict[str, Any]]] = {}
    for loader in run["loaders"]:
        found.setdefault(loader["function"], []).append(loader)
    return found


def test_each_loader_is_recorded_once_with_one_complete_pass(library: Path) -> None:
    recorded = record_with(library)
    found = {
        name: [
            (one["kind"], one["call"], one["passes"], one["data"]["rows"], one["data"]["times"])
            for one in loaders
        ]
        for name, loaders in recorded.items()
    }
    assert recorded["of_rows"][0]["data"]["sizes"] == {}, "rows are not batches"
    assert found == {
        "of_rows": [("make_reader", 0, [[3, 3, True]], 3, 1)],
        # Only one row was read. The data are from one epoch and represent both epochs.
        "of_rows_in_part": [("make_reader", 0, [[1, 1, False]], 3, 2)],
        "of_endless_rows": [("make_reader", 0, [[7, 7, False]], 3, 1)],
        "of_batches": [("make_batch_reader", call, [[3, 6, True]], 6, 1) for call in (0, 1)],
        "of_nested_calls": [("make_batch_reader", 0, [[3, 3, True]], 3, 1)],
        # A loader whose reader has two epochs.
        "of_loader": [("DataLoader", 0, [[1, 1, False]], 3, 2)],
        # A subclass whose `__init__` calls the recorded constructor.
        "__init__": [
            ("DataLoader", 0, [[3, 3, True]], 3, 1),
            ("DataLoader", 1, [[1, 1, False]], 3, 1),
        ],
    }


def test_program_gets_the_same_random_numbers_when_it_is_recorded(library: Path) -> None:
    program = library / "train.py"
    program.write_text("import random\nrandom.seed(5)\n" + program.read_text())
    printed = [
        subprocess.run(
            [sys.executable, *recorder_, "train.py"], cwd=library, capture_output=True
        ).stdout
        for recorder_ in ([], [str(SOURCE), "--runs", "1"])
    ]
    assert printed[0] == printed[1] != b""


def test_no_full_pass_option_leaves_loaders_without_data(library: Path) -> None:
    found = record_with(library, "--no-full-pass")
    notes = {name: [one.get("note", "") for one in loaders] for name, loaders in found.items()}
    missing = "no pass over it was completed"
    assert {name: each for name, each in notes.items() if any(each)} == {
        "of_rows_in_part": [missing],
        "of_endless_rows": [missing],
        "of_loader": [missing],
        "__init__": ["", missing],
    }


#: A stand-in for the parts of Petastorm that the recorder patches, with a reader of one batch.
ONE_BATCH = """
import numpy as np

class Reader:
    batched_output = True

    def __iter__(self):
        yield {batch}

def make_batch_reader(url):
    return Reader()
"""


@pytest.mark.parametrize(
    ("batch", "note"),
    [
        (
            "{'x': np.zeros(2), 'o': [{1}, {2}]}",
            "column 'o': values of type set have no canonical form",
        ),
        ("{'x': np.zeros(2), 'y': [1]}", "columns in a batch have different lengths"),
        ("{1}", "its items are set objects"),
    ],
)
def test_loader_with_unhashable_values_has_row_counts_and_a_note(
    batch: str, note: str, tmp_path: Path
) -> None:
    (tmp_path / "petastorm").mkdir()
    (tmp_path / "petastorm" / "reader.py").write_text(ONE_BATCH.replace("{batch}", batch))
    program = "from petastorm.reader import make_batch_reader\nlist(make_batch_reader('x'))\n"
    (tmp_path / "train.py").write_text(program)
    command = [sys.executable, str(SOURCE), "--runs", "1", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    (loader,) = run["loaders"]
    assert (loader["note"], "data" in loader) == (note, False)
    assert loader["passes"] == [[1, 0 if "its items" in note else 2, True]]


WATCHED = """
import importlib
import pickle

import mdstorm.reader
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import make_spark_converter

importlib.reload(mdstorm.reader)
subclasses = []

class Registered(BatchedDataLoader):
    def __init_subclass__(cls):
        subclasses.append(cls)

class Loader(Registered):
    def __iter__(self):
        yield from super().__iter__()

for cls in (BatchedDataLoader, Loader):
    reader = mdstorm.reader.make_batch_reader("file:///{path}", num_epochs=1)
    with cls(reader, batch_size=2) as recorded:
        print(sum(len(batch["x"]) for batch in recorded), type(recorded) is cls)
print([cls is Loader for cls in subclasses])
with make_spark_converter("file:///{path}").make_torch_dataloader(num_epochs=1) as recorded:
    again = pickle.loads(pickle.dumps(recorded))
    print(type(again).__name__, sum(len(batch["x"]) for batch in again))
"""


@pytest.mark.long
def test_recorder_supports_pickled_loaders_reloaded_modules_and_registered_subclasses(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    (tmp_path / "train.py").write_text(WATCHED.replace("{path}", str(path).lstrip("/")))
    done = run_recorder("--runs", "1", "train.py", cwd=tmp_path)
    assert done.stdout.splitlines() == ["3 True", "3 True", "[True]", "StreamingDataLoader 3"]
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    assert [one["data"]["rows"] for one in run["loaders"]] == [3, 3, 3]
    assert [one["passes"] for one in run["loaders"]] == [[[2, 3, True]], [[2, 3, True]], []]


FORKS = """
import os
import sys
from petastorm.spark.spark_dataset_converter import SparkDatasetConverter

loader = SparkDatasetConverter(sys.argv[1]).make_torch_dataloader()
if os.fork():
    print("exit code of the child:", os.waitpid(-1, 0)[1] >> 8)
    next(iter(loader))
else:
    with loader:
        next(iter(loader))
    {end}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("1 / 0", 1), ("pass", 0)]
)
def test_exit_of_forked_child_adds_nothing_to_recording(
    end: str, code: int, tmp_path: Path
) -> None:
    package = tmp_path / "petastorm" / "spark"
    package.mkdir(parents=True)
    (package / "spark_dataset_converter.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(FORKS.replace("{end}", end))
    (tmp_path / "rows").write_text("1\n2\n")
    command = [sys.executable, str(SOURCE), "--runs", "1", "train.py", str(tmp_path / "rows")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # The child takes one row; the parent takes one row and then reads a full pass.
    parent = [f"exit code of the child: {code}", "read epochs: None", "read epochs: 1"]
    assert done.stdout.splitlines() == ["read epochs: None", *parent]
    assert done.stderr.count("record: wrote") == 1
    (run,) = json.loads((tmp_path / "train.recording.json").read_text())["runs"]
    assert [one["passes"] for one in run["loaders"]] == [[[1, 1, False]]]


HAS_SECRETS = """
import sys
from petastorm.spark.spark_dataset_converter import SparkDatasetConverter

for path in sys.argv[3:]:
    try:
        next(iter(SparkDatasetConverter(path).make_torch_dataloader()))
    except (OSError, ValueError):
        pass
raise ValueError("https://store/secret-of-the-url?sig=secret")
"""


def test_recording_contains_no_command_line_arguments_or_error_messages(tmp_path: Path) -> None:
    package = tmp_path / "petastorm" / "spark"
    package.mkdir(parents=True)
    (package / "spark_dataset_converter.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(HAS_SECRETS)
    (tmp_path / "rows").write_text("secret-value\n")
    program = [str(tmp_path / "train.py"), "--token", "secret-token", "secret-path", "rows"]
    command = [sys.executable, str(SOURCE), "--output", "it.json", *program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    text = (tmp_path / "it.json").read_text()
    assert "secret" not in text
    assert str(tmp_path) not in text
    found = json.loads(text)
    assert found["program"] == "train.py"
    (run,) = found["runs"]
    assert run["ended"] == "ValueError"
    assert [loader["note"] for loader in run["loaders"]] == [
        "a full pass could not be read: FileNotFoundError",
        "a full pass could not be read: ValueError",
    ]
    # Error messages are printed, not recorded.
    loader = "record: train.py <module> make_torch_dataloader"
    assert f"{loader} #1: FileNotFoundError: " in done.stderr
    assert f"{loader} #2: ValueError: could not convert string to float" in done.stderr
