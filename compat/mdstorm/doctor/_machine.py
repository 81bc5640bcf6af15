"""Check Python, the limits of this machine, its GPUs, and the launcher of a training job."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from mdstorm.doctor._findings import Finding, of_error
from mdstorm.doctor._libraries import installed

if TYPE_CHECKING:
    from mdstorm_backend.order import World

_OLDEST_PYTHON = (3, 10)
_FEWEST_FILES = 1024
_SMALLEST_SHARED_MEMORY = 1 << 30
#: Seconds for a program that says something of this machine.
PATIENCE = 60
_ASK_TORCH = """
import json, torch
print(json.dumps([torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda]))
"""


def look_at_python() -> Iterator[Finding]:
    """Check the version of Python, and the system."""
    found = f"{platform.python_version()} ({sys.executable}) on {platform.system()}"
    if sys.version_info < _OLDEST_PYTHON:
        yield Finding("python", "problem", found, "use Python 3.10 or newer")
    elif platform.system() not in ("Linux", "Darwin"):
        yield Finding("python", "problem", found, "use Linux or macOS; on Windows, use WSL")
    else:
        yield Finding("python", "ok", f"{found}, {os.cpu_count()} processors")


def look_at_limits() -> Iterator[Finding]:
    """Check how many files a process may open, and the memory that processes share."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < _FEWEST_FILES:
        yield Finding(
            "limits",
            "warning",
            f"a process may open {files} files, and readers keep many shards open",
            f"run `ulimit -n {_FEWEST_FILES}`, or more, before the program (at most {most})",
        )
    shared = Path("/dev/shm")
    if shared.is_dir() and (size := shutil.disk_usage(shared).total) < _SMALLEST_SHARED_MEMORY:
        yield Finding(
            "limits",
            "warning",
            f"/dev/shm has {size >> 20} MiB, through which worker processes pass batches",
            "start the container with `--shm-size=4g` or `--ipc=host`, or use num_workers=0",
        )


def look_at_gpus() -> Iterator[Finding]:
    """Check that PyTorch can use the GPUs that the driver shows."""
    gpus = _gpus_of_driver()
    version = installed("torch")
    if not gpus:
        yield Finding("gpu", "note", "the driver shows no NVIDIA GPU here")
        return
    found = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({gpus[0]})"
    if version is None:
        yield Finding("gpu", "note", f"{found}; PyTorch is not installed")
        return
    if _built_without_cuda(version):
        yield Finding(
            "gpu",
            "problem",
            f"{found}, but torch {version} was built without CUDA",
            "pip uninstall -y torch, then pip install torch (without the index of CPU wheels)",
        )
        return
    yield _what_torch_sees(found, version)


def _what_torch_sees(found: str, version: Version) -> Finding:
    try:
        can, count, cuda = json.loads(said_by(sys.executable, "-c", _ASK_TORCH).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        return of_error("gpu", RuntimeError(f"{found}, and torch cannot be imported: {error}"))
    if not can:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hides = f" CUDA_VISIBLE_DEVICES={visible!r} may hide it." if visible is not None else ""
        return Finding(
            "gpu",
            "problem",
            f"{found}, but torch {version} for CUDA {cuda} cannot use it.{hides}",
            "install a torch for the CUDA version that `nvidia-smi` shows, or a newer driver",
        )
    rank = os.environ.get("LOCAL_RANK", "0")
    if rank.isdecimal() and int(rank) >= count:
        return Finding(
            "gpu",
            "problem",
            f"LOCAL_RANK={rank}, and PyTorch sees {count} GPUs here",
            f"start at most {count} processes per host: torchrun --nproc-per-node={count}",
        )
    return Finding("gpu", "ok", f"{found}; torch {version} uses it with CUDA {cuda}")


def _gpus_of_driver() -> list[str]:
    """Return the names of the GPUs; none if there is no driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    ask = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    try:
        return said_by(*ask).split("\n")
    except (OSError, subprocess.SubprocessError):
        return []


def _built_without_cuda(version: Version) -> bool:
    """Whether this torch has no CUDA, by its version or its file of versions."""
    if version.local and version.local.startswith("cpu"):
        return True
    spec = importlib.util.find_spec("torch")
    stated = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    if stated is None or not stated.exists():
        return False
    return any(line.startswith("cuda") and line.endswith("None") for line in _lines(stated))


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text("utf-8").splitlines()]


def look_at_world() -> Iterator[Finding]:
    """Check what the launcher has told this process."""
    from mdstorm_backend.errors import InvalidArgumentError
    from mdstorm_backend.order import find_world

    try:
        world = find_world()
    except InvalidArgumentError as error:
        yield of_error("launcher", error)
        return
    if world.size == 1:
        yield Finding("launcher", "ok", "none: this process reads all rows")
        return
    found = f"rank {world.rank} of {world.size} on {world.num_nodes} hosts, from {world.source}"
    yield Finding("launcher", "ok", found)
    address = os.environ.get("MASTER_ADDR")
    if address:
        try:
            socket.getaddrinfo(address, None)
        except OSError as error:
            yield Finding(
                "launcher",
                "problem",
                f"the host MASTER_ADDR={address} has no address here ({error})",
                "set it to a name or an address that all hosts can resolve",
            )


def world_of_job() -> World | None:
    """Return the world of a job of several ranks; None outside of one."""
    from mdstorm_backend.errors import InvalidArgumentError
    from mdstorm_backend.order import find_world

    with suppress(InvalidArgumentError, ImportError):
        world = find_world()
        return world if world.size > 1 else None
    return None


def said_by(*command: str, both: bool = False) -> str:
    """Run a program, and return what it wrote to standard output, or to both outputs."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        last = (done.stderr or done.stdout or "").strip().splitlines()[-1:]
        raise OSError(f"{command[0]} ended with {done.returncode}: {''.join(last)}")
    return done.stdout.strip()
