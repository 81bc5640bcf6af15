"""Running programs in the environment that has MosaicML Streaming."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "in_mosaic"
#: Seconds; MosaicML Streaming may wait for ever for a shard that it cannot prepare.
TIMEOUT = 120

RunInMosaic = Callable[..., Any]


@pytest.fixture(scope="session")
def run_in_mosaic(tmp_path_factory: pytest.TempPathFactory) -> RunInMosaic:
    """Run a script of `in_mosaic` and return the JSON that it prints."""
    python = os.environ.get("MDSTORM_INTEROP_PYTHON")
    if not python:
        pytest.skip("MDSTORM_INTEROP_PYTHON does not name a Python with MosaicML Streaming")
    # MosaicML Streaming keeps lock files there.
    environment = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("locks"))}

    def run(script: str, *arguments: object, timeout: int = TIMEOUT) -> Any:
        done = subprocess.run(
            [python, SCRIPTS / script, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def read(
    run_in_mosaic: Any, datasets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What MosaicML Streaming finds in the `datasets` of a module, by their names."""
    results = run_in_mosaic("read.py", tmp_path_factory.mktemp("caches"), *datasets.values())
    return dict(zip(datasets, results, strict=True))
