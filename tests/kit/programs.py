"""Run programs in separate processes, for effects that occur only once per process."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

#: First lines of a program that needs a Spark session with its own settings.
SESSION = """
import os
os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
from pyspark.sql import SparkSession, functions as F
builder = SparkSession.builder.master("local[2]")
"""


def without_session() -> dict[str, str]:
    """Return the environment without the variables that PySpark sets for a running session."""
    left = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT", "PYSPARK_SUBMIT", "PYSPARK_GATE")
    return {key: value for key, value in os.environ.items() if not key.startswith(left)}


def run_program(
    source: str, *args: object, cwd: Path, expect_success: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program from its source with `args`, in the directory `cwd` and with this Python."""
    program = cwd / "program.py"
    program.write_text(source)
    command = (sys.executable, program, *args)
    return run_command(*command, cwd=cwd, env=without_session(), expect_success=expect_success)


def run_command(
    *command: object, cwd: Path, env: dict[str, str] | None = None, expect_success: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command in the directory `cwd`; `env` replaces this process's environment."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if expect_success:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def free_port() -> int:
    """Return a local port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def own_mounts() -> list[str]:
    """Return the command that gives a process its own mounts, or skip the test."""
    unshare = shutil.which("unshare")
    for command in ([unshare, "-m"], [unshare, "-m", "--map-root-user"]):
        if unshare and not subprocess.run([*map(str, command), "true"], check=False).returncode:
            return [str(word) for word in command]
    pytest.skip("needs the unshare command and permission to mount")
