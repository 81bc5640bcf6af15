"""What type checkers say of programs that use the public names."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

SCRIPTS = Path(__file__).with_name("scripts")
#: What may be `Any` nowhere: what loops over loaders yield.
_LOOPS = """
from mdstorm import make_batch_reader, make_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import StreamingDataLoader, StreamingDataset

def loops(converter: SparkDatasetConverter) -> None:
    reader = make_reader("file:///data")
    loops = (
        iter(converter.make_torch_dataloader()),
        iter(converter.make_tf_dataset()),
        iter(reader),
        iter(make_batch_reader("file:///data")),
        iter(DataLoader(reader)),
        iter(BatchedDataLoader(reader)),
        iter(InMemBatchedDataLoader(reader)),
        iter(make_petastorm_dataset(reader)),
        iter(StreamingDataLoader(StreamingDataset(local="data"))),
    )
    reveal_type(next(loops[0]))
    reveal_type(next(loops[1]))
    reveal_type(next(loops[2]))
    reveal_type(next(loops[3]))
    reveal_type(next(loops[4]))
    reveal_type(next(loops[5]))
    reveal_type(next(loops[6]))
    reveal_type(next(loops[7]))
    reveal_type(next(loops[8]))
"""

Check = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Check:
    """Run mypy as users do, outside of this project and without its settings."""
    directory = tmp_path_factory.mktemp("mypy")

    def run(*paths: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", *map(str, paths)],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_scripts_pass_strictly(check: Check) -> None:
    scripts = sorted(SCRIPTS.glob("*.py"))
    assert len(scripts) >= 4
    done = check(*scripts)
    assert done.returncode == 0, done.stdout


def test_no_loop_yields_any(check: Check, tmp_path: Path) -> None:
    script = tmp_path / "loops.py"
    script.write_text(_LOOPS)
    lines = [line for line in check(script).stdout.splitlines() if "Revealed type" in line]
    types = [line.partition('is "')[2].removesuffix('"') for line in lines]
    assert len(types) == _LOOPS.count("reveal_type")
    assert "Any" not in types, types


def test_mistakes_are_found(check: Check, tmp_path: Path) -> None:
    script = tmp_path / "mistakes.py"
    script.write_text(
        "from mdstorm.spark import SparkDatasetConverter\n"
        "def train(converter: SparkDatasetConverter) -> None:\n"
        "    converter.make_torch_dataloader(batch_size='4')\n"
        "    converter.make_tf_dataset(num_epoch=1)\n"
        "    for x in converter.make_torch_dataloader(features='x'):\n"
        "        x.mena()\n"
    )
    done = check(script)
    assert done.returncode == 1
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [int(line.split(":")[1]) for line in found] == [3, 4, 6]
