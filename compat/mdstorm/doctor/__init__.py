"""Check whether mdstorm can work here, and suggest a fix for each problem.

In a notebook::

    from mdstorm.doctor import check_setup

    check_setup()                          # changes nothing
    check_setup("s3://bucket/cache")       # also writes there with Spark, reads back, and deletes

The command ``mdstorm doctor`` does the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from mdstorm.doctor import _requirements
from mdstorm.doctor._report import Finding, Report, of_error
from mdstorm_backend.errors import MDStormError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Finding", "Report", "check_setup"]


def check_setup(
    cache_dir_url: str | os.PathLike[str] | None = None,
    *,
    round_trip: bool = True,
    spark: SparkSession | None = None,
) -> Report:
    """Check the setup of this machine and, if a directory is given, of Spark and the storage.

    Parameters
    ----------
    cache_dir_url : str or path, optional
        Directory for a round trip. Spark writes a small DataFrame with nulls there, and PyTorch,
        or else TensorFlow, reads it back, on the GPU if there is one. The values are compared, and
        the files are deleted. By default, only the configured parent cache directory is checked.
    round_trip : bool
        Whether to do the round trip.
    spark : pyspark.sql.SparkSession, optional
        The session, by default the active one. If there is none, the round trip starts a session
        and stops it afterward.

    Returns
    -------
    Report
        The findings; ``report.problems`` is empty if mdstorm can work here.

    Notes
    -----
    In a job with several ranks, started by torchrun or TorchDistributor for example, each rank
    checks its own host, without Spark and without a round trip.

    Files written to test a directory are removed, even after Ctrl-C. Nothing else changes.
    """
    url = "" if cache_dir_url is None else os.fspath(cache_dir_url)
    session = _active_session() if spark is None else spark
    is_job = _requirements.world_of_job() is not None
    needs_spark = bool(url) and not is_job
    findings: list[Finding] = []

    def run(name: str, check: Callable[[], Finding | Iterable[Finding]]) -> None:
        try:
            found = check()
            findings.extend((found,) if isinstance(found, Finding) else found)
        except MDStormError as error:
            findings.append(of_error(name, error))
        except Exception as error:  # if a check fails, the others still run
            text = f"this could not be checked: {type(error).__name__}: {error}"
            findings.append(Finding(name, "problem", " ".join(text.split())))

    run("python", _requirements.check_python)
    run("libraries", partial(_requirements.check_libraries, needs_spark=needs_spark))
    run("libraries", _requirements.check_names)
    if not is_job:
        run("java", partial(_requirements.check_java, session))
        run("spark", partial(_requirements.check_spark_home, session))
        run("workers", partial(_requirements.check_workers, session))
    run("launcher", _requirements.check_launcher)
    run("tmpdir", _requirements.check_temporary)
    run("cache", _requirements.check_cache)
    run("cache-dir", partial(_requirements.check_cache_dir, url, session))
    has_problems = bool(Report(tuple(findings)).problems)
    if url and round_trip and (has_problems or is_job):
        why = "because of the problems above" if has_problems else "in a job with several ranks"
        findings.append(Finding("round-trip", "note", f"not made {why}"))
    elif url and round_trip:
        from mdstorm.doctor._round_trip import make_round_trip  # imports what may be broken

        run("round-trip", partial(make_round_trip, url, session))
    return Report(tuple(findings))


def _active_session() -> SparkSession | None:
    """Return the active Spark session of this process, or None."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
