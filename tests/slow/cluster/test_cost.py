"""The cost of writing two gigabytes with two executors."""

import os
import time
from typing import NamedTuple

import pytest
from tests.slow.cluster.conftest import PROGRAMS
from tests.slow.cluster.hosts import Host
from tests.slow.cluster.launchers import finish
from tests.slow.cluster.standalone import Standalone
from tests.slow.cluster.store import Store

pytestmark = [pytest.mark.cluster, pytest.mark.long]

ROWS, ROW_BYTES = 500_000, 4_008
#: Command that prints a host's CPU ticks, and the largest peak memory of a Python process in KiB.
USED = """
exec awk 'FILENAME ~ /stat$/ { ticks += $14 + $15 + $16 + $17 }
    $1 == "Name:" { name = $2 }
    $1 == "VmHWM:" && name ~ /^python/ && $2 > most { most = $2 }
    END { print ticks, most + 0 }' /proc/[0-9]*/stat /proc/[0-9]*/status
"""


class Used(NamedTuple):
    """Resources used by hosts: time, CPU time, and the largest Python process's peak memory."""

    seconds: float
    cpu_seconds: float
    worker_mb: float


def used(hosts: list[Host]) -> Used:
    found = [map(int, host.run("sh", "-c", USED).split()) for host in hosts]
    ticks, most = zip(*found, strict=True)
    return Used(time.monotonic(), sum(ticks) / os.sysconf("SC_CLK_TCK"), max(most) * 1024 / 1e6)


def write(store: Store, hosts: list[Host], cluster: Standalone, executors: int, rows: int) -> Used:
    """Write this number of rows after a warm-up; return the resources used, without the warm-up."""
    found: list[Used] = []

    def measure(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("index.json"):
            found.append(used(hosts))

    store.fault = measure
    conf = {"spark.cores.max": str(executors)}
    arguments = (PROGRAMS / "write_wide.py", f"s3://bucket/wide{executors}", rows)
    cluster.submit(*arguments, conf=conf).finish(seconds=600)
    store.reset()
    before, after = found
    seconds, cpu_seconds = after.seconds - before.seconds, after.cpu_seconds - before.cpu_seconds
    print(f"{executors}: {rows * ROW_BYTES / seconds / 1e6:.0f} MB/s", end=", ")
    print(f"{cpu_seconds / rows * 1e6:.1f} µs of the CPU per row, {after.worker_mb:.0f} MB")
    return Used(seconds, cpu_seconds, after.worker_mb)


def test_two_executors_need_no_more_cpu_per_row_than_one_and_stay_below_memory_limit(
    store: Store, hosts: list[Host], spark_cluster: Standalone
) -> None:
    one = write(store, hosts, spark_cluster, 1, ROWS // 4)
    two = write(store, hosts, spark_cluster, 2, ROWS)
    assert two.cpu_seconds / ROWS < 1.25 * one.cpu_seconds / (ROWS // 4)
    assert two.worker_mb < 700
    program, variables = PROGRAMS / "read_half.py", {"MDSTORM_CACHE_DIR": "/tmp/wide"}
    variables |= store.environment
    arguments = ("python", program, "s3://bucket/wide2/large")
    readers = [host.start(*arguments, half, **variables) for half, host in enumerate(hosts)]
    assert finish(readers).splitlines() == ["250000 250000 0 249999", "250000 250000 250000 499999"]
    for host in hosts:
        host.run("rm", "-r", "/tmp/wide")
