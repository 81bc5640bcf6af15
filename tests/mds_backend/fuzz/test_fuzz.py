"""Whatever the bytes of a dataset are: an error of ours, never another, never a crash or a bomb."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("factor", [1, pytest.param(10, marks=pytest.mark.long)])
def test_thousands_of_cases_neither_crash_nor_take_memory(tmp_path: Path, factor: int) -> None:
    program = Path(__file__).with_name("many_cases.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", str(program), str(factor)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    cases, opened = map(int, done.stdout.split())
    assert cases > factor * 1_000
    assert opened > cases / 10  # the damage gets past the first check
