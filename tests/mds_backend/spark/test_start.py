"""Sessions are started where Java is, and an error says so where it is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_START = "from mdstorm_backend.spark import start_session; start_session()"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_java_that_is_missing_or_cannot_be_used_is_said(is_there: bool, tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    if is_there:
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\nexit 1\n")
        java.chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA", "SPARK", "PYSPARK_GATEWAY"))
    }
    done = subprocess.run(
        [sys.executable, "-c", _START],
        env={**kept, "JAVA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    last = done.stderr.splitlines()[-1]
    assert "MissingDependencyError: Spark could not start Java" in last
    assert "Spark 4 needs Java 17" in last
    assert "Install Java 17" in last
