"""Check Python, this machine's limits and directories, and the training job's launcher."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mdstorm.doctor._report import Finding, Setup, note, ok, problem, warning
from mdstorm_backend.errors import InvalidArgumentError

if TYPE_CHECKING:
    from mdstorm_backend.order import World
    from mdstorm_backend.storage import Location

_FEWEST_FILES = 1024
_SMALLEST_SHARED_MEMORY = 1 << 30
_ROOM = 1 << 30
_NO_ROOM = 16 << 20
#: Network file systems, whose locks and renames may be slow or missing.
_REMOTE = ("9p", "afs", "cifs", "fuse", "nfs", "smb", "virtiofs")


def check_python(_: Setup) -> Finding:
    """Check the operating system, and report the Python version."""
    found = f"{platform.python_version()} ({sys.executable}) on {platform.system()}"
    if platform.system() not in ("Linux", "Darwin"):
        return problem(found, "use Linux or macOS; on Windows, use WSL")
    return ok(f"{found}, {os.cpu_count()} processors")


def check_open_files(_: Setup) -> Finding | None:
    """Check how many files a process can open."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files >= _FEWEST_FILES:
        return None
    return warning(
        f"a process may open {files} files, and readers keep many shards open",
        f"run `ulimit -n {_FEWEST_FILES}`, or more, before the program (at most {most})",
    )


def check_shared_memory(_: Setup) -> Finding | None:
    """Check the size of the shared memory that worker processes use to pass batches."""
    shared = Path("/dev/shm")
    size = shutil.disk_usage(shared).total if shared.is_dir() else _SMALLEST_SHARED_MEMORY
    if size >= _SMALLEST_SHARED_MEMORY:
        return None
    return warning(
        f"/dev/shm has {size >> 20} MiB, which worker processes use to pass batches",
        "start the container with `--shm-size=4g` or `--ipc=host`, or use num_workers=0",
    )


def check_launcher(_: Setup) -> Finding:
    """Check the rank and address that the launcher assigned to this process."""
    from mdstorm_backend.order import find_world

    world = find_world()
    if world.size == 1:
        return ok("none: this process reads all rows")
    address = os.environ.get("MASTER_ADDR")
    try:
        socket.getaddrinfo(address or "localhost", None)
    except OSError as error:
        return problem(
            f"the host MASTER_ADDR={address} has no address here ({error})",
            "set it to a name or an address that all hosts can resolve",
        )
    return ok(f"rank {world.rank} of {world.size} on {world.num_nodes} hosts, from {world.source}")


def world_of_job() -> World | None:
    """Return the world of a job with several ranks, or None for a single process."""
    with suppress(InvalidArgumentError, ImportError):
        from mdstorm_backend.order import find_world

        world = find_world()
        return world if world.size > 1 else None
    return None


def check_cache(_: Setup) -> Iterator[Finding]:
    """Check the directory that stores local copies of remote shards."""
    from mdstorm_backend.cache import cache_root, check_cache_root

    path = Path(cache_root())
    remedy = "set MDSTORM_CACHE_DIR to a directory that you own on a local disk"
    nearest = _nearest(path)
    try:
        check_cache_root()
        with tempfile.TemporaryDirectory(prefix="mdstorm-doctor-", dir=nearest) as own:
            Path(own, "written").write_bytes(b"mdstorm doctor")
            Path(own, "written").replace(Path(own, "renamed"))
    except OSError as error:
        yield problem(f"{path} cannot be written to: {error}", remedy)
        return
    kind = _kind_of(path)
    if kind.startswith(_REMOTE):
        yield warning(f"{path} is on {kind}, which is not a local disk", remedy)
    yield _room(nearest, f"{path} can be written to", remedy)


def check_cache_dir(setup: Setup) -> Iterator[Finding]:
    """Check the directory for converted DataFrames by writing and removing a small file."""
    from mdstorm._spark import copies
    from mdstorm_backend.spark import check_driver_writes
    from mdstorm_backend.storage import Location, check_scheme

    found = copies.configured_parent(setup.session, setup.url)
    if not found:
        yield note(
            "no directory for converted DataFrames is configured",
            f"set the conf {copies.PETASTORM_CONF}, or the variable {copies.ENVIRONMENT_VARIABLE}; "
            "`mdstorm doctor --cache-dir URL` checks a directory before you set it",
        )
        return
    url = copies.checked_directory(found)
    check_scheme(url)
    location = Location.of(url)
    with no_new_directories(location):
        check_driver_writes(location)
    found = f"this process can write to {url}"
    if not location.is_in_file_tree:
        yield ok(found)
        return
    yield _room(_nearest(Path(location.path)), found, "choose a directory elsewhere")
    why = _why_not_shared(location, setup)
    if why:
        yield problem(
            f"{location.path} is on a disk of this machine, and {why}",
            "use a store or a mount that all of them see: s3://…, gs://…, abfss://…, dbfs:/…, NFS",
        )


def _why_not_shared(location: Location, setup: Setup) -> str:
    """Return why other machines need access to a directory of this one, or "" if they do not."""
    from mdstorm_backend.spark import is_local

    if not location.is_local_disk or _kind_of(Path(location.path)).startswith(_REMOTE):
        return ""
    if setup.world is not None and setup.world.num_nodes > 1:
        return f"the job has {setup.world.num_nodes} hosts"
    if setup.session is not None:
        return "" if is_local(setup.session) else "Spark's executors are on other machines"
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return "a Databricks cluster has several machines"
    return ""


@contextmanager
def no_new_directories(location: Location) -> Iterator[None]:
    """On exit, remove directories in a path that are empty and did not exist before."""
    paths = (Path(location.path), *Path(location.path).parents) if location.is_in_file_tree else ()
    missing = [path for path in paths if not path.exists()]
    try:
        yield
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def _nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def _kind_of(path: Path) -> str:
    """Return the file system type of a path, or an empty string if unknown."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
        within = [(len(m[1]), m[2]) for m in mounts if path.is_relative_to(m[1])]
        return max(within)[1] if within else ""
    return ""


def _room(path: Path, found: str, remedy: str) -> Finding:
    free = shutil.disk_usage(path).free
    found = f"{found}, with {free / _ROOM:,.1f} GiB free"
    if free >= _ROOM:
        return ok(found)
    return (problem if free < _NO_ROOM else warning)(found, f"free some space, or {remedy}")
