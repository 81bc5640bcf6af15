"""Check what Spark needs: Java, the Python of its workers, and its session."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import Version

import mdstorm
from mdstorm.doctor._findings import Finding
from mdstorm.doctor._libraries import installed
from mdstorm.doctor._machine import said_by

#: Each says that Spark's JVM was started by somebody else.
_STARTED_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "DATABRICKS_RUNTIME_VERSION")
_INSTALL_JAVA = (
    "install Java 17 (apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda "
    "install openjdk=17), and let JAVA_HOME name its directory"
)
#: What a worker needs, asked in its Python.
_ASK_WORKER = """
import json, sys
found = {"python": list(sys.version_info[:2])}
try:
    import mdstorm, mdstorm_backend.format, pyarrow
    found["mdstorm"] = mdstorm.__version__
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def look_at_java(session: Any = None) -> Iterator[Finding]:
    """Check that there is a Java with which Spark starts."""
    spark = installed("pyspark")
    if spark is None:
        yield Finding(
            "java", "note", "not needed: pyspark is not installed", 'pip install "mdstorm[spark]"'
        )
        return
    elsewhere = next((name for name in _STARTED_ELSEWHERE if os.environ.get(name)), None)
    if session is not None or elsewhere or _is_client():
        yield Finding("java", "ok", f"not needed here: {elsewhere or 'Spark runs already'}")
        return
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        looked = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        yield Finding("java", "problem", f"{looked}, and Spark needs one", _INSTALL_JAVA)
        return
    yield _judged(java, spark)


def _is_client() -> bool:
    """Whether databricks-connect is in the place of pyspark."""
    from importlib import metadata

    return any(True for _ in metadata.distributions(name="databricks-connect"))


def _judged(java: str, spark: Version) -> Finding:
    try:
        text = said_by(java, "-version", both=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("java", "problem", f"{java} does not run: {error}", _INSTALL_JAVA)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    found = f"{java} is Java {version}, for pyspark {spark}"
    oldest, newest = (17, 21) if spark.major >= 4 else (8, 17)
    if version < oldest:
        return Finding("java", "problem", f"{found}, which needs {oldest}", _INSTALL_JAVA)
    if version > newest:
        return Finding("java", "warning", f"{found}, which is tested up to {newest}", _INSTALL_JAVA)
    return Finding("java", "ok", found)


def look_at_workers(session: Any = None) -> Iterator[Finding]:
    """Check the Python that Spark starts for its tasks on this machine."""
    if installed("pyspark") is None or _is_client() or _is_remote(session):
        return
    named = os.environ.get("PYSPARK_PYTHON")
    python = shutil.which(named or "python3")
    says = f"PYSPARK_PYTHON={named}" if named else "PYSPARK_PYTHON is not set, and python3"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if python is None:
        yield Finding("workers", "problem", f"{says} is not a program here", remedy)
        return
    try:
        found = json.loads(said_by(python, "-c", _ASK_WORKER).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        yield Finding("workers", "problem", f"{says} does not run as a Python: {error}", remedy)
        return
    version = "{}.{}".format(*found["python"])
    if tuple(found["python"]) != sys.version_info[:2]:
        own = "{}.{}".format(*sys.version_info)
        yield Finding(
            "workers", "problem", f"{says} is Python {version}, and this one is {own}", remedy
        )
    elif "error" in found:
        yield Finding(
            "workers",
            "problem",
            f"{says} ({python}) cannot import mdstorm: {found['error']}",
            f"{remedy}, or install mdstorm there: {python} -m pip install mdstorm",
        )
    elif found["mdstorm"] != mdstorm.__version__:
        yield Finding(
            "workers",
            "problem",
            f"{says} ({python}) has mdstorm {found['mdstorm']}, and this is {mdstorm.__version__}",
            f"{remedy}, or install the same version there",
        )
    else:
        yield Finding("workers", "ok", f"{python} is Python {version} with mdstorm")


def look_at_home() -> Iterator[Finding]:
    """Check that SPARK_HOME has the version of pyspark."""
    home, spark = os.environ.get("SPARK_HOME"), installed("pyspark")
    if not home or spark is None:
        return
    remedy = "unset SPARK_HOME, so that pyspark uses the Spark that it brings"
    cores = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not cores:
        yield Finding("spark", "problem", f"SPARK_HOME={home} holds no Spark", remedy)
        return
    version = cores[0].stem.rpartition("-")[2]
    if version != spark.base_version:
        yield Finding(
            "spark",
            "problem",
            f"SPARK_HOME={home} has Spark {version}, and pyspark is {spark}",
            f'{remedy}, or pip install "pyspark=={version}"',
        )


def look_at_session(session: Any) -> Iterator[Finding]:
    """Say which session there is."""
    if session is None:
        remote = os.environ.get("SPARK_REMOTE")
        if remote:
            yield Finding("spark", "note", f"SPARK_REMOTE={remote}: sessions are of Spark Connect")
        return
    from mdstorm_backend.spark import read_conf

    kind = "Spark Connect" if _is_remote(session) else "classic"
    where = read_conf(session, "spark.master") or "a server"
    found = f"a {kind} session of Spark {session.version} on {where}"
    client = installed("pyspark")
    server = Version(str(session.version).split("-")[0])
    if client is not None and server.release[:2] != client.release[:2]:
        yield Finding(
            "spark",
            "warning" if _is_remote(session) else "problem",
            f"{found}, and pyspark here is {client}",
            f'pip install "pyspark=={server.release[0]}.{server.release[1]}.*"',
        )
        return
    yield Finding("spark", "ok", found)


def active_session() -> Any:
    """Return the session of this process; None if it has none."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect.")
