"""`check_setup`: all checks in one report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from mdstorm._petastorm_names import public
from mdstorm.doctor import _libraries, _machine, _spark, _storage
from mdstorm.doctor._findings import Finding, Report, examined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@public("mdstorm.doctor")
def check_setup(
    cache_dir_url: str | os.PathLike[str] | None = None,
    *,
    ranks: int = 1,
    round_trip: bool = True,
    spark: SparkSession | None = None,
) -> Report:
    """Check the set-up of this machine and, with a directory, of Spark and the storage.

    Parameters
    ----------
    cache_dir_url : str or path, optional
        Directory for a round trip: a small DataFrame with every type and nulls is written there by
        Spark, read back in PyTorch and TensorFlow as far as they are installed, on the GPU if there
        is one, compared by value, and deleted. By default the configured parent cache directory is
        only looked at.
    ranks : int
        Number of processes on this host that read back, each its share.
    round_trip : bool
        Whether to make the round trip.
    spark : pyspark.sql.SparkSession, optional
        The session; by default the active one. Without one, the round trip starts a session, and
        stops it.

    Returns
    -------
    Report
        What was found; ``report.problems`` is empty if mdstorm can work here.

    Notes
    -----
    In a job of several ranks, as torchrun or TorchDistributor start them, every rank calls this
    with the same URL. Rank 0 writes the rows, without Spark; all ranks of all hosts read their
    shares.

    Files that are written to try a directory are removed, also after Ctrl-C. Nothing else changes.
    """
    session = spark if spark is not None else _spark.active_session()
    world = _machine.world_of_job()
    asked = None if cache_dir_url is None else os.fspath(cache_dir_url)
    findings: list[Finding] = []
    for check, look in _checks(asked, session, in_job=world is not None):
        findings += examined(check, look)
    if asked is None or not round_trip:
        return Report(tuple(findings))
    if any(one.status == "problem" for one in findings):
        findings.append(Finding("round-trip", "note", "not made because of the problems above"))
    elif world is not None:
        from mdstorm.doctor._job import make_job_trip

        findings += examined("round-trip", partial(make_job_trip, asked, world))
    else:
        from mdstorm.doctor._round_trip import make_round_trip

        trip = partial(make_round_trip, asked, session=session, ranks=ranks)
        findings += examined("round-trip", trip)
    return Report(tuple(findings))


def _checks(
    url: str | None, session: SparkSession | None, *, in_job: bool
) -> Iterator[tuple[str, Callable[[], Iterator[Finding]]]]:
    """Yield the name of each check, and the function that makes it; a training job has no Spark."""
    needed = {_libraries.extra_of(url), *(() if in_job else ("spark",))} if url else set()
    yield "python", _machine.look_at_python
    yield "mdstorm", _libraries.look_at_mdstorm
    yield "libraries", partial(_libraries.look_at_libraries, needed)
    if not in_job:
        yield "java", partial(_spark.look_at_java, session)
        yield "workers", partial(_spark.look_at_workers, session)
        yield "spark", _spark.look_at_home
        yield "spark", partial(_spark.look_at_session, session)
    yield "limits", _machine.look_at_limits
    yield "gpu", _machine.look_at_gpus
    yield "launcher", _machine.look_at_world
    yield "cache", _storage.look_at_cache
    yield (
        "cache-dir",
        lambda: _storage.look_at_directory(url or _storage.configured_directory(session), session),
    )
