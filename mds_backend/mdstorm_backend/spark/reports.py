"""Collect what the tasks of a write report, and tell in short what their workers lack."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from mdstorm_backend.errors import MissingDependencyError
from mdstorm_backend.spark.refusals import short_reason
from mdstorm_backend.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How `make_task` begins to say that workers cannot import mdstorm.
_OURS = re.compile(r"ImportError: (mdstorm cannot be imported on a Spark worker .+)")
#: How Spark's workers say that they lack what any task needs.
_SPARKS = re.compile(
    r"ModuleNotFoundError: No module named '(pyarrow|pandas)'"
    r"|PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)"
)


def collect_reports(mapped: DataFrame) -> list[str]:
    """Run the job of a frame that `make_task` maps, and return its reports in order.

    Raises
    ------
    MissingDependencyError
        If Python on the workers lacks mdstorm, or what Spark and mdstorm need there. Every other
        error is Spark's own.
    """
    try:
        return [row["report"] for row in mapped.collect()]
    except Exception as error:
        lacking = _lacking(error, mapped.sparkSession)
        if lacking:
            raise MissingDependencyError(lacking) from error
        raise


def _lacking(error: Exception, session: SparkSession) -> str:
    """Return what an error of Spark says of libraries that workers lack; empty if nothing."""
    reason = short_reason(error)
    if ours := _OURS.match(reason):
        return ours[1]
    found = _SPARKS.search(reason)
    if found is None:
        return ""
    remedy = (
        f"Set the environment variable PYSPARK_PYTHON to {sys.executable} before Spark starts, "
        "or activate its environment"
        if is_local(session)
        else "Install mdstorm on the workers as well, or set PYSPARK_PYTHON to a Python that has it"
    )
    return f"Python on the Spark workers has no {(found[1] or found[2]).lower()}. {remedy}"
