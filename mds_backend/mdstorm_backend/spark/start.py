"""Start a Spark session, or say in one line that Java is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Each says that a session is, or connects to, a JVM that somebody else has started.
_STARTED_ELSEWHERE = (
    *("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"),
    "DATABRICKS_RUNTIME_VERSION",
)
_INSTALL = (
    "Install Java 17 (such as apt-get install openjdk-17-jre-headless, brew install openjdk@17, or "
    "conda install openjdk=17) and, if it is not on the PATH, let JAVA_HOME name its directory"
)


def start_session(builder: Any = None) -> SparkSession:
    """Return the session of this process, or start one.

    Parameters
    ----------
    builder : pyspark.sql.SparkSession.Builder, optional
        Says how; by default Spark's own settings.

    Raises
    ------
    MissingDependencyError
        If pyspark or Java is not installed, or Java is too old for this Spark.
    """
    require("pyspark")
    from pyspark.sql import SparkSession

    if _needs_java(builder) and not _finds_java():
        home = os.environ.get("JAVA_HOME")
        looked = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        raise MissingDependencyError(f"Spark needs Java, and {looked}. {_INSTALL}")
    try:
        return (SparkSession.builder if builder is None else builder).getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise MissingDependencyError(
            "Spark could not start Java: its own message is above. Spark 4 needs Java 17 or newer, "
            f"Spark 3.5 Java 8, 11 or 17. {_INSTALL}"
        ) from error


def _needs_java(builder: Any) -> bool:
    """Whether a JVM would have to be started, as far as that can be told."""
    from pyspark import SparkContext

    if any(os.environ.get(name) for name in _STARTED_ELSEWHERE):
        return False
    if "spark.remote" in getattr(builder, "_options", {}):
        return False
    return getattr(SparkContext, "_gateway", None) is None and not _is_databricks_connect()


def _is_databricks_connect() -> bool:
    """Whether pyspark is the client that databricks-connect brings."""
    import pyspark

    return (Path(pyspark.__file__).parents[1] / "databricks" / "connect").exists()


def _finds_java() -> bool:
    """Whether Spark's own script finds Java, which also looks into ``spark-env.sh``."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    conf = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    return java is not None or Path(conf, "spark-env.sh").exists()
