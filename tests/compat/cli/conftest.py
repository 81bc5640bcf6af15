import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.mds_backend.small_datasets import write_dataset

from mdstorm.cli import main

ROWS = {
    "number": list(range(300)),
    "text": [None if i == 1 else f"text {i}" for i in range(300)],
}
FIELDS = {"number": "long", "text": "string"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset of a few shards in which one text is null."""
    directory = tmp_path / "dataset"
    write_dataset(directory, ROWS, FIELDS, shard_size=4_000)
    assert len(list(directory.glob("*.mds"))) > 2
    return directory


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the command in this process; what is written where is kept apart."""
    # click 8.2 keeps the streams apart by itself, and has no such argument.
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**{"mix_stderr": False} if separate else {})  # type: ignore[arg-type]

    def invoke(*arguments: object, **options: Any) -> Result:
        result = runner.invoke(main, [str(argument) for argument in arguments], **options)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return invoke
