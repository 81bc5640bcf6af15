"""A round trip of a training job: one rank writes, and all ranks of all hosts read their shares.

The ranks meet by files in the directory that is tried, so no process group is made, and hosts that
do not see the same directory are found out.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm import convert
from mdstorm.doctor._findings import Finding
from mdstorm.doctor._round_trip import CHECK, judged, libraries, own_directory, shares_of, started
from mdstorm.doctor._sample_rows import COLUMNS, ROWS, is_null
from mdstorm_backend.display import counted
from mdstorm_backend.order import World
from mdstorm_backend.storage import Location, normalize_url

#: Seconds that ranks wait for each other.
_PATIENCE = 180
_PAUSE = 1.0
_TOLD = "dataset.json"
#: What the ranks of one job, and no other, have in common.
_OF_JOB = (
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)


def make_job_trip(url: str, world: World) -> Iterator[Finding]:
    """Yield what this rank finds; rank 0 counts the rows of all ranks, and deletes them."""
    words = [str(world.size), *(os.environ.get(name, "") for name in _OF_JOB)]
    name = f"mdstorm-doctor-{hashlib.blake2s(' '.join(words).encode()).hexdigest()[:16]}"
    if world.rank:
        yield _follow(Location.of(normalize_url(url)).child(name), world)
        return
    with own_directory(url, name) as directory:
        data = f"{directory.url}/{secrets.token_hex(8)}"
        with tempfile.TemporaryDirectory() as local:
            pq.write_table(_sample_table(), Path(local, "rows.parquet"), row_group_size=100)
            convert(local, data, shard_size=1 << 14, progress=False)
        yield Finding(CHECK, "ok", f"rank 0 wrote {ROWS} rows below {normalize_url(url)}")
        reports = [_report_of_this_rank(data), *_reports_of_others(directory, data, world)]
        if len(reports) < world.size:
            yield _missing(reports, url, world)
            return
        hosts = len({report["host"] for report in reports})
        for library in reports[0]["shares"]:
            how = f"{library}, {world.size} ranks on {counted(hosts, 'host')}, resumed once"
            shares = [share for r in reports if (share := r["shares"].get(library)) is not None]
            yield judged(how, shares)
    yield Finding(CHECK, "ok", "what was written is deleted")


def _sample_table() -> pa.Table:
    """Return the rows of a round trip, made without Spark."""
    types = {"map": pa.map_(pa.string(), pa.int64())}
    columns = {
        name: pa.array(
            [None if is_null(i) else column.value(i) for i in range(ROWS)], types.get(name)
        )
        for name, column in COLUMNS.items()
    }
    return pa.table({"id": pa.array(range(ROWS)), **columns})


def _report_of_this_rank(data: str) -> dict[str, Any]:
    """Read the share of this rank in each library that is installed."""
    shares = {one: shares_of([started(one, data, {})])[0] for one in libraries()}
    return {"host": socket.gethostname(), "rank": 0, "shares": shares}


def _reports_of_others(directory: Location, data: str, world: World) -> list[dict[str, Any]]:
    """Tell the ranks that are there where the rows are, until all have reported, or time is up.

    A rank answers to the number that it has just drawn: files of a job that was killed are ignored.
    """
    told: dict[str, str] = {}
    until = time.monotonic() + _PATIENCE
    while True:
        ready = {f"{rank}": _read(directory, f"ready-{rank}") for rank in range(1, world.size)}
        if ready != told:
            directory.write(_TOLD, [json.dumps({"data": data, "ready": ready}).encode()])
            told = ready
        found = (_read(directory, f"report-{rank}") for rank in range(1, world.size))
        reports = [r for r in found if r and r["number"] == ready[str(r["rank"])]]
        if len(reports) == world.size - 1 or time.monotonic() > until:
            return reports
        time.sleep(_PAUSE)


def _follow(directory: Location, world: World) -> Finding:
    """Read the share of a rank other than 0, once that rank says where it is."""
    number = secrets.token_hex(8)
    directory.make_directory()
    directory.write(f"ready-{world.rank}", [json.dumps(number).encode()])
    until = time.monotonic() + _PATIENCE
    while (_read(directory, _TOLD) or {"ready": {}})["ready"].get(str(world.rank)) != number:
        if time.monotonic() > until:
            return Finding(
                CHECK,
                "problem",
                f"rank {world.rank} on {socket.gethostname()} has not seen for {_PATIENCE} s what "
                f"rank 0 writes to {directory.url}",
                "use a directory that all hosts see, and give every rank the same URL",
            )
        time.sleep(_PAUSE)
    report = _report_of_this_rank(_read(directory, _TOLD)["data"])
    report |= {"rank": world.rank, "number": number}
    directory.write(f"report-{world.rank}", [json.dumps(report).encode()])
    return Finding(CHECK, "ok", f"rank {world.rank} has read its share")


def _read(directory: Location, name: str) -> Any:
    """Return what a rank has written; None if it is not there yet."""
    with suppress(FileNotFoundError):
        return json.loads(bytes(directory.read(name)))
    return None


def _missing(reports: list[dict[str, Any]], url: str, world: World) -> Finding:
    there = {report["rank"] for report in reports}
    missing = ", ".join(str(rank) for rank in range(world.size) if rank not in there)
    return Finding(
        CHECK,
        "problem",
        f"after {_PATIENCE} s, nothing was heard of ranks {missing} below {url}",
        "use a directory that all hosts see, and see what these ranks have reported",
    )
