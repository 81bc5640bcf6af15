"""Check what Spark needs: Java, the Python of its workers, and its session."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from packaging.version import Version

import mdstorm
from mdstorm.doctor._libraries import has, installed
from mdstorm.doctor._machine import said_by
from mdstorm.doctor._report import Finding, Setup, note, ok, problem, warning

#: Variables that are set where Spark's JVM is not started by this process.
_STARTED_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "DATABRICKS_RUNTIME_VERSION")
_INSTALL_JAVA = (
    "install Java 17 (apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda "
    "install openjdk=17), and let JAVA_HOME name its directory"
)
#: Program that reports, run by the workers' Python, its version and whether mdstorm imports.
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


def check_java(setup: Setup) -> Finding:
    """Check that there is a Java version with which Spark starts."""
    spark = installed("pyspark")
    if spark is None:
        return note(
            "pyspark is not installed: files can be read, and Spark DataFrames not converted",
            'if you use Spark here, pip install "mdstorm[spark]", and Java 17 or newer',
        )
    elsewhere = next((name for name in _STARTED_ELSEWHERE if os.environ.get(name)), None)
    if setup.session is not None or elsewhere or has("databricks-connect"):
        return ok(f"not needed here: {elsewhere or 'Spark runs already'}")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        looked = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        return problem(f"{looked}, and Spark needs one", _INSTALL_JAVA)
    try:
        text = said_by(java, "-version", stderr=subprocess.STDOUT)
    except (OSError, subprocess.SubprocessError) as error:
        return problem(f"{java} does not run: {error}", _INSTALL_JAVA)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    found = f"{java} is Java {version}, for pyspark {spark}"
    oldest, newest = (17, 21) if spark.major >= 4 else (8, 17)
    if version < oldest:
        return problem(f"{found}, which needs {oldest}", _INSTALL_JAVA)
    if version > newest:
        return warning(f"{found}, which is tested up to {newest}", _INSTALL_JAVA)
    return ok(found)


def check_workers(setup: Setup) -> Finding | None:
    """Check the Python that Spark starts for its tasks on this machine."""
    if installed("pyspark") is None or has("databricks-connect") or _is_remote(setup.session):
        return None
    named = os.environ.get("PYSPARK_PYTHON")
    python = shutil.which(named or "python3")
    says = f"PYSPARK_PYTHON={named}" if named else "PYSPARK_PYTHON is not set, and python3"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if python is None:
        return problem(f"{says} is not a program here", remedy)
    try:
        found = json.loads(said_by(python, "-c", _ASK_WORKER).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        return problem(f"{says} does not run as a Python: {error}", remedy)
    version, own = ("{}.{}".format(*one) for one in (found["python"], sys.version_info))
    if version != own:
        return problem(f"{says} is Python {version}, and this one is {own}", remedy)
    if "error" in found:
        return problem(
            f"{says} ({python}) cannot import mdstorm: {found['error']}",
            f"{remedy}, or install mdstorm there: {python} -m pip install mdstorm",
        )
    if found["mdstorm"] != mdstorm.__version__:
        return problem(
            f"{says} ({python}) has mdstorm {found['mdstorm']}, and this is {mdstorm.__version__}",
            f"{remedy}, or install the same version there",
        )
    return ok(f"{python} is Python {own} with mdstorm")


def check_spark_home(_: Setup) -> Finding | None:
    """Check that SPARK_HOME has the version of pyspark."""
    home, spark = os.environ.get("SPARK_HOME"), installed("pyspark")
    if not home or spark is None:
        return None
    remedy = "unset SPARK_HOME, so that pyspark uses the Spark that it brings"
    core = min(Path(home, "jars").glob("spark-core_*.jar"), default=None)
    if core is None:
        return problem(f"SPARK_HOME={home} holds no Spark", remedy)
    version = core.stem.rpartition("-")[2]
    if version == spark.base_version:
        return None
    return problem(
        f"SPARK_HOME={home} has Spark {version}, and pyspark is {spark}",
        f'{remedy}, or pip install "pyspark=={version}"',
    )


def check_session(setup: Setup) -> Finding | None:
    """Report the current Spark session, and check that its version matches pyspark's."""
    session = setup.session
    if session is None:
        remote = os.environ.get("SPARK_REMOTE")
        return note(f"SPARK_REMOTE={remote}: sessions are of Spark Connect") if remote else None
    from mdstorm_backend.spark import read_conf

    kind = "Spark Connect" if _is_remote(session) else "classic"
    where = read_conf(session, "spark.master") or "a server"
    found = f"a {kind} session of Spark {session.version} on {where}"
    client, server = installed("pyspark"), Version(session.version.split("-")[0])
    if client is None or server.release[:2] == client.release[:2]:
        return ok(found)
    return (warning if _is_remote(session) else problem)(
        f"{found}, and pyspark here is {client}",
        f'pip install "pyspark=={server.release[0]}.{server.release[1]}.*"',
    )


def active_session() -> Any:
    """Return the active Spark session of this process, or None."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect.")
