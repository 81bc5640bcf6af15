"""Check whether mdstorm can work here, and suggest a fix for each problem.

In a notebook::

    from mdstorm.doctor import check_setup

    check_setup()                          # changes nothing
    check_setup("s3://bucket/cache")       # also writes there with Spark, reads back, and deletes

The command ``mdstorm doctor`` does the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mdstorm.doctor import _machine, _software
from mdstorm.doctor._report import Check, Finding, Report, Setup, of_error, problem
from mdstorm_backend.errors import MDStormError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Finding", "Report", "check_setup"]

#: Each check with its name in the report, in the order in which the checks run.
_CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", _machine.check_python),
    ("mdstorm", _software.check_mdstorm),
    ("libraries", _software.check_libraries),
    ("java", _software.check_java),
    ("workers", _software.check_workers),
    ("workers", _software.check_driver_python),
    ("spark", _software.check_spark_home),
    ("spark", _software.check_session),
    ("limits", _machine.check_open_files),
    ("limits", _machine.check_shared_memory),
    ("gpu", _software.check_gpus),
    ("launcher", _machine.check_launcher),
    ("cache", _machine.check_cache),
    ("cache-dir", _machine.check_cache_dir),
)
_CHECKS_OF_SPARK = ("java", "workers", "spark")


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
        Directory for a round trip. Spark writes a small DataFrame with nulls there, and PyTorch and
        TensorFlow, if installed, read it back, on the GPU if there is one. The values are compared,
        and the files are deleted. By default, only the configured parent cache directory is
        checked.
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
    checks its own host, and there is no round trip.

    Files written to test a directory are removed, even after Ctrl-C. Nothing else changes.
    """
    setup = Setup(
        url="" if cache_dir_url is None else os.fspath(cache_dir_url),
        session=_software.active_session() if spark is None else spark,
        world=_machine.world_of_job(),
    )
    findings: list[Finding] = []
    for name, check in _CHECKS:
        if setup.world is None or name not in _CHECKS_OF_SPARK:
            findings += _findings_of(name, check, setup)
    if setup.url and round_trip:
        has_problems = any(one.status == "problem" for one in findings)
        why = "because of the problems above" if has_problems else "in a job with several ranks"
        if has_problems or setup.world is not None:
            findings.append(Finding("round-trip", "note", f"not made {why}"))
        else:
            findings += _findings_of("round-trip", _make_round_trip, setup)
    return Report(tuple(findings))


def _findings_of(name: str, check: Check, setup: Setup) -> Iterator[Finding]:
    """Yield the findings of a check, or a problem if the check raises."""
    try:
        found = check(setup)
        for one in (found,) if isinstance(found, Finding) else found or ():
            yield replace(one, check=name)
    except MDStormError as error:
        yield replace(of_error(error), check=name)
    except Exception as error:  # if a check fails, the others still run
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        yield replace(
            problem(
                f"this could not be checked: {text}",
                "reinstall mdstorm and its libraries in a fresh environment",
            ),
            check=name,
        )


def _make_round_trip(setup: Setup) -> Iterable[Finding]:
    from mdstorm.doctor._round_trip import round_trip  # imports libraries that may be broken

    return round_trip(setup)
