"""Write a small DataFrame, read it back in ranks, compare it by value, and delete it.

The ranks of a training job meet by files in the directory that is tried, so no process group is
made, and hosts that do not see the same directory are found out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from mdstorm import convert
from mdstorm.doctor._libraries import installed
from mdstorm.doctor._machine import said_by
from mdstorm.doctor._report import Finding, Setup, of_error, ok, problem
from mdstorm.doctor._sample_rows import COLUMNS, ROWS, sample_frame, sample_table, wrong_values
from mdstorm.doctor._storage import no_new_directories
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.display import counted
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.order import World
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location, normalize_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds for the ranks of one library on this host, and for which ranks of a job wait for others.
_PATIENCE = 300
_PATIENCE_OF_JOB = 180
_TOLD = "dataset.json"
#: What the ranks of one job, and no other, have in common.
_OF_JOB = (
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)


def of_this_host(setup: Setup) -> Iterator[Finding]:
    """Let Spark write the rows, and processes of this host read them."""
    with _session(setup.session) as spark, _own_directory(setup.url) as directory:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                converter = make_spark_converter(
                    sample_frame(spark), parent_cache_dir_url=directory.url, dtype=None
                )
        except Exception as error:  # each kind of session has errors of its own
            yield of_error(error)
            return
        where = f"{len(converter.file_urls)} shards below {normalize_url(setup.url)}"
        yield ok(f"Spark wrote {len(converter)} rows in {where}")
        written = str(converter.cache_dir_url)
        table = open_dataset(written).to_table().to_pydict()
        ids = table.pop("id")
        arrow = {"ids": ids, "wrong": wrong_values(ids, table, "in_arrow")}
        yield judged(f"Arrow, {len(COLUMNS) + 1} types", [arrow])
        world = {"WORLD_SIZE": setup.ranks, "LOCAL_WORLD_SIZE": setup.ranks}
        ranks = [{**world, "RANK": rank, "LOCAL_RANK": rank} for rank in range(setup.ranks)]
        for library in _libraries():
            shares = _read_shares(library, written, ranks)
            devices = ", ".join(sorted({share["device"] for share in shares}))
            how = f"{library} on {devices}, {counted(setup.ranks, 'rank')}, resumed once"
            yield judged(how, shares)
        converter.delete()
    yield ok("what was written is deleted")


def of_job(setup: Setup) -> Iterator[Finding]:
    """Let rank 0 write the rows, and all ranks of all hosts read them."""
    assert setup.world is not None
    world, url = setup.world, normalize_url(setup.url)
    words = [str(world.size), *(os.environ.get(name, "") for name in _OF_JOB)]
    name = f"mdstorm-doctor-{hashlib.blake2s(' '.join(words).encode()).hexdigest()[:16]}"
    if world.rank:
        yield _follow(Location.of(url).child(name), world)
        return
    with _own_directory(url, name) as directory:
        data = f"{directory.url}/{secrets.token_hex(8)}"
        with tempfile.TemporaryDirectory() as local:
            pq.write_table(sample_table(), Path(local, "rows.parquet"), row_group_size=100)
            convert(local, data, shard_size=1 << 14, progress=False)
        yield ok(f"rank 0 wrote {ROWS} rows below {url}")
        reports = [_report(data, rank=0), *_reports_of_others(directory, data, world)]
        missing = set(range(world.size)) - {report["rank"] for report in reports}
        if missing:
            yield problem(
                f"after {_PATIENCE_OF_JOB} s, nothing was heard of ranks "
                f"{', '.join(map(str, sorted(missing)))} below {url}",
                "use a directory that all hosts see, and see what these ranks have reported",
            )
            return
        hosts = counted(len({report["host"] for report in reports}), "host")
        for library in reports[0]["shares"]:
            shares = [found for one in reports if (found := one["shares"].get(library))]
            yield judged(f"{library}, {world.size} ranks on {hosts}, resumed once", shares)
    yield ok("what was written is deleted")


def _reports_of_others(directory: Location, data: str, world: World) -> list[dict[str, Any]]:
    """Tell the ranks where the rows are, again and again, until all have reported, or time is up.

    They trust a file that changes: what a job that was killed has left does not.
    """
    reports: list[dict[str, Any]] = []
    for number in _seconds():
        directory.write(_TOLD, [json.dumps({"data": data, "number": number}).encode()])
        found = (_read(directory, f"report-{rank}") for rank in range(1, world.size))
        reports = [one for one in found if one and one["data"] == data]
        if len(reports) == world.size - 1:
            break
    return reports


def _follow(directory: Location, world: World) -> Finding:
    """Read the share of a rank other than 0, once that rank says where it is."""
    directory.make_directory()
    before = _read(directory, _TOLD)
    for _ in _seconds():
        told = _read(directory, _TOLD)
        if told and told != before:
            report = _report(told["data"], rank=world.rank)
            directory.write(f"report-{world.rank}", [json.dumps(report).encode()])
            return ok(f"rank {world.rank} has read its share")
    return problem(
        f"rank {world.rank} on {socket.gethostname()} has not seen for {_PATIENCE_OF_JOB} s what "
        f"rank 0 writes to {directory.url}",
        "use a directory that all hosts see, and give every rank the same URL",
    )


def _seconds() -> Iterator[int]:
    """Count seconds, for as long as ranks wait for each other."""
    for number in range(_PATIENCE_OF_JOB):
        yield number
        time.sleep(1)


def _read(directory: Location, name: str) -> Any:
    """Return what a rank has written; None if it is not there yet."""
    with suppress(FileNotFoundError):
        return json.loads(bytes(directory.read(name)))
    return None


def _report(data: str, *, rank: int) -> dict[str, Any]:
    """Read the share of this rank in each library that is installed."""
    shares = {library: _read_shares(library, data, [{}])[0] for library in _libraries()}
    return {"data": data, "host": socket.gethostname(), "rank": rank, "shares": shares}


def _libraries() -> list[str]:
    return [one for one in ("torch", "tensorflow") if installed(one) is not None]


def _read_shares(
    library: str, url: str, ranks: Sequence[Mapping[str, object]]
) -> list[dict[str, Any]]:
    """Let a process for each rank read its share, by these environment variables and our own.

    Raises
    ------
    MDStormError
        If one fails, or takes too long.
    """

    def read(variables: Mapping[str, object]) -> dict[str, Any]:
        quiet = {"TF_CPP_MIN_LOG_LEVEL": 3, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        changed = {name: str(value) for name, value in {**quiet, **variables}.items()}
        command = (sys.executable, "-m", "mdstorm.doctor._sample_rows", library, url)
        said = said_by(*command, env={**os.environ, **changed}, timeout=_PATIENCE)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    try:
        with ThreadPoolExecutor(len(ranks)) as pool:
            return list(pool.map(read, ranks))
    except subprocess.TimeoutExpired:
        raise MDStormError(
            f"a rank had not read its share after {_PATIENCE} s. Measure how fast this host reads "
            "from the directory"
        ) from None
    except OSError as error:
        raise MDStormError(
            f"{library} failed in a rank: {error}. See whether `import {library}` works here"
        ) from None


def judged(how: str, shares: list[dict[str, Any]]) -> Finding:
    """Count the rows of all shares by number, and what is wrong in them."""
    counts = Counter(row for share in shares for row in share["ids"])
    lost = [row for row in range(ROWS) if row not in counts]
    repeated = [row for row, count in counts.items() if count > 1]
    wrong = sum((Counter(share["wrong"]) for share in shares), Counter[str]())
    if not lost and not repeated and not wrong:
        return ok(f"{how}: all {ROWS} rows, each once, with the right values")
    columns = ", ".join(f"{name} ({count})" for name, count in wrong.items()) or "none"
    return problem(
        f"{how}: {len(lost)} rows lost, {len(repeated)} repeated, wrong values: {columns}",
        "report it with the output of `mdstorm doctor --format json`",
    )


@contextmanager
def _session(given: SparkSession | None) -> Iterator[SparkSession]:
    """Yield the session, or one that is started and stopped."""
    if given is not None:
        yield given
        return
    started = start_session()
    with suppress(Exception):  # a session of Spark Connect has no context
        started.sparkContext.setLogLevel("ERROR")
    with suppress(ValueError):  # a thread has no handler
        # Spark's own cancels jobs over the connection that is in use, and may fail at that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield started
    finally:
        with suppress(Exception):  # that of a broken connection would hide why it ends
            started.stop()


@contextmanager
def _own_directory(url: str, name: str = "") -> Iterator[Location]:
    """Yield a directory below a URL, which is removed at the end with all that is in it."""
    name = name or f"mdstorm-doctor-{secrets.token_hex(8)}"
    directory = Location.of(normalize_url(url)).child(name)
    logger = logging.getLogger("mdstorm")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with no_new_directories(directory):
        try:
            yield directory
        finally:
            logger.setLevel(level)
            for file in directory.list_names():
                directory.remove(file)
            directory.remove_directory_if_empty()
