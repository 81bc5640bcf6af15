"""Type checkers accept programs that use the public names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.newest, pytest.mark.long]

PROGRAMS = Path(__file__).with_name("typed_programs")

#: Loops over loaders, datasets and readers, whose items must not have the type `Any`.
_LOOPS = """
from mdstorm import make_batch_reader, make_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import StreamingDataLoader, StreamingDataset

def loops(converter: SparkDatasetConverter) -> None:
    reader = make_reader("file:///data")
    reveal_type(next(iter(converter.make_torch_dataloader())))
    reveal_type(next(iter(converter.make_tf_dataset())))
    reveal_type(next(iter(reader)))
    reveal_type(next(iter(make_batch_reader("file:///data"))))
    reveal_type(next(iter(DataLoader(reader))))
    reveal_type(next(iter(BatchedDataLoader(reader))))
    reveal_type(next(iter(InMemBatchedDataLoader(reader))))
    reveal_type(next(iter(make_petastorm_dataset(reader))))
    reveal_type(next(iter(StreamingDataLoader(StreamingDataset(local="data")))))
"""

_MISTAKES = """
import mdstorm
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import StreamingDataset, open_dataset

def train(converter: SparkDatasetConverter) -> None:
    make_spark_converter("/data", dtype="float16")  # mistake
    make_spark_converter("/data", decimals="float16")  # mistake
    mdstorm.convert("/data", "/mds", dtype="float16")  # mistake
    mdstorm.convert("/data", "/mds", decimals="double")  # mistake
    mdstorm.make_batch_reader("/data", decimals="double")  # mistake
    StreamingDataset(local="data", shuffle_algo="py1x")  # mistake
    for numbers in open_dataset("/mds").batches(8):
        numbers.colunms  # mistake
    for frame in open_dataset("/mds").batches(8, format="pandas"):
        frame.haed()  # mistake
    converter.make_torch_dataloader(batch_size="4")  # mistake
    converter.make_tf_dataset(num_epoch=1)  # mistake
    converter[0]  # mistake
    for batch in converter.make_torch_dataloader():
        batch["x"].mena()  # mistake
"""


def check(tool: str, *arguments: str | Path, cwd: Path) -> list[str]:
    """Return the lines that a type checker prints."""
    done = subprocess.run(
        [sys.executable, "-m", tool, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def of_mypy(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Run mypy once as users do: outside this project and without the project's settings."""
    directory = tmp_path_factory.mktemp("mypy")
    (directory / "loops.py").write_text(_LOOPS)
    (directory / "mistakes.py").write_text(_MISTAKES)
    programs = [*sorted(PROGRAMS.glob("*.py")), directory]
    return check("mypy", "--strict", "--config-file=", *programs, cwd=directory)


def errors(lines: list[str], program: Path | str) -> list[int]:
    """Return the line numbers of the errors in a program."""
    found = [re.search(rf"{re.escape(str(program))}:(\d+): error", line) for line in lines]
    return [int(match[1]) for match in found if match]


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_typed_programs_pass_mypy_in_strict_mode(program: Path, of_mypy: list[str]) -> None:
    assert errors(of_mypy, program.name) == [], of_mypy


def test_types_that_mypy_infers_in_loops_are_not_any(of_mypy: list[str]) -> None:
    types = [line.partition('type is "')[2].removesuffix('"') for line in of_mypy]
    revealed = [each for each in types if each]
    assert len(revealed) == _LOOPS.count("reveal_type")
    assert "Any" not in revealed


def test_mypy_reports_each_marked_mistake_and_nothing_else(of_mypy: list[str]) -> None:
    lines = _MISTAKES.splitlines()
    expected = [number for number, line in enumerate(lines, 1) if line.endswith("# mistake")]
    assert errors(of_mypy, "mistakes.py") == expected


def test_typed_programs_pass_pyright() -> None:
    pytest.importorskip("pyright")
    options = ("--pythonpath", sys.executable, PROGRAMS)
    assert "0 errors" in check("pyright", *options, cwd=PROGRAMS)[-1]
