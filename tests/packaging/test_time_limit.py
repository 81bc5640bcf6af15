"""A test that does not end costs one test, not the run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_PROGRAM = """
import threading

def test_one_that_waits_forever():
    threading.Event().wait()

def test_the_next_one():
    pass
"""


def test_a_test_that_does_not_end_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "test_waiting.py").write_text(_PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml"),
            *("-p", "tests.conftest", "-p", "no:cacheprovider", tmp_path),
        ],
        cwd=ROOT,
        env={**os.environ, "MDSTORM_TEST_SECONDS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "has not ended after 1 s" in done.stdout
    assert "(most recent call first)" in done.stdout  # where each thread was
