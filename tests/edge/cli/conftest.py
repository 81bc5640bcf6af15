from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.kit.migrating import invoke
from tests.kit.small_datasets import write_dataset

from mdstorm.cli import main

ROWS = {"number": list(range(300)), "text": [None if i == 1 else f"text {i}" for i in range(300)]}
FIELDS = {"number": "long", "text": "string"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset with a few shards and one null in its ``text`` column."""
    directory = tmp_path / "dataset"
    write_dataset(directory, ROWS, FIELDS, shard_size=4_000)
    assert len(list(directory.glob("*.mds"))) > 2
    return directory


def run(*arguments: object, **options: Any) -> Result:
    """Run the command in this process, with separate stdout and stderr."""
    result = invoke(main, *arguments, **options)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result
