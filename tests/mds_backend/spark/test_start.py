"""Sessions are started where Java is, and one line says so where it is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_START = "from mdstorm_backend.spark import start_session; start_session()"


def run_with(
    program: list[str], directory: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python where the only programs are those of a directory."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA", "SPARK", "PYSPARK_GATEWAY", "PATH"))
    }
    return subprocess.run(
        [sys.executable, *program],
        env={**kept, "PATH": str(directory), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("home", ["", pytest.param("/nowhere", marks=pytest.mark.long)])
def test_a_command_says_in_one_line_that_java_is_missing(home: str, tmp_path: Path) -> None:
    environment = {"JAVA_HOME": home} if home else {}
    command = ["-m", "mdstorm", "convert", "--spark", "/a", str(tmp_path / "b")]
    done = run_with(command, tmp_path, **environment)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Spark needs Java, and ")
    assert "Install Java 17" in line
    assert (f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH") in line


def test_a_java_that_cannot_be_used_is_said_as_well(tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    done = run_with(
        ["-c", _START], tmp_path, JAVA_HOME=str(tmp_path / "home"), PATH=os.environ["PATH"]
    )
    last = done.stderr.splitlines()[-1]
    assert "MissingDependencyError: Spark could not start Java" in last
    assert "Spark 4 needs Java 17" in last


@pytest.mark.long
def test_java_is_not_looked_for_where_somebody_else_runs_it(tmp_path: Path) -> None:
    program = (
        "from mdstorm_backend.spark import session\n"
        "from pyspark.sql import SparkSession\n"
        "print(session._needs_java(SparkSession.builder.remote('sc://localhost')))"
    )
    assert run_with(["-c", program], tmp_path).stdout.split() == ["False"]
    asked = "from mdstorm_backend.spark import session; print(session._needs_java(None))"
    assert run_with(["-c", asked], tmp_path).stdout.split() == ["True"]
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION"):
        assert run_with(["-c", asked], tmp_path, **{name: "1"}).stdout.split() == ["False"]
