"""Fixtures that run programs in the environment with MosaicML Streaming."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "in_mosaic"
#: MosaicML Streaming may wait forever for a shard that it cannot prepare.
TIMEOUT_SECONDS = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run MosaicML Streaming itself with `make test-interop`, its recorded results always."""
    for item in items:
        if "run_in_mosaic" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def run_in_mosaic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Run a script from `in_mosaic` and return the JSON that it prints."""
    python = os.environ.get("MDSTORM_INTEROP_PYTHON")
    if not python:
        pytest.skip("MDSTORM_INTEROP_PYTHON is not set to a Python with MosaicML Streaming")
    directory = tmp_path_factory.mktemp("in_mosaic")
    output, errors = directory / "output", directory / "errors"
    # MosaicML Streaming keeps lock files in TMPDIR.
    environment = {**os.environ, "TMPDIR": str(directory)}
    with subprocess.Popen(
        [python, SCRIPTS / "forks.py"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        commands, statuses = forks.stdin, forks.stdout

        def run(script: str, *arguments: object) -> Any:
            words = [SCRIPTS / script, output, errors, TIMEOUT_SECONDS, *arguments]
            commands.write(json.dumps(words, default=str) + "\n")
            commands.flush()
            assert statuses.readline().strip() == "0", errors.read_text()
            return json.loads(output.read_text())

        yield run


@pytest.fixture(scope="module")
def read(
    run_in_mosaic: Any, datasets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """MosaicML Streaming's results for the `datasets` of a module, by name."""
    results = run_in_mosaic("read.py", tmp_path_factory.mktemp("caches"), *datasets.values())
    return dict(zip(datasets, results, strict=True))
