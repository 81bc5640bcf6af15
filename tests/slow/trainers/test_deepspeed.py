"""A user-written training loop with DeepSpeed's engine, under torchrun."""

from pathlib import Path
from typing import Any

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import Run, launch, torchrun

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory where DeepSpeed compiles its CPU communication library, once for all tests."""
    return str(tmp_path_factory.mktemp("extensions"))


def loop(url: str, *args: object, extensions: str, processes: int = 2, **options: Any) -> Run:
    environment = {"DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": extensions}
    launcher = torchrun(processes)
    return launch("deepspeed_loop.py", url, *args, launcher=launcher, **environment, **options)


@pytest.mark.parametrize("processes", [1, 2])
def test_deepspeed_ranks_read_each_row_once_and_resume(
    url: str, tmp_path: Path, extensions: str, processes: int
) -> None:
    loop(url, "loader", "train", at=tmp_path, extensions=extensions)
    again = {"at": tmp_path, "extensions": extensions, "processes": processes}
    loop(url, "loader", "resumed", "fourth", **again).check_resumes(ROWS)


def test_deepspeed_training_data_argument_raises_error(
    url: str, tmp_path: Path, extensions: str
) -> None:
    run = loop(url, "training_data", "train", at=tmp_path, extensions=extensions, fails=True)
    assert "expected unspecified sampler option" in run.output
