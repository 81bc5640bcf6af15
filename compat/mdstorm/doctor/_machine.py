"""Check Python, the limits of this machine, its GPUs, and the launcher of the training job."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdstorm.doctor._libraries import installed
from mdstorm.doctor._report import Finding, Setup, note, ok, problem, warning

if TYPE_CHECKING:
    from mdstorm_backend.order import World

_FEWEST_FILES = 1024
_SMALLEST_SHARED_MEMORY = 1 << 30
#: Timeout in seconds for programs that are run to query this machine.
_PATIENCE = 60
_ASK_TORCH = """
import json, torch
print(json.dumps([torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda]))
"""


def check_python(_: Setup) -> Finding:
    """Check the operating system, and report the version of Python."""
    found = f"{platform.python_version()} ({sys.executable}) on {platform.system()}"
    if platform.system() not in ("Linux", "Darwin"):
        return problem(found, "use Linux or macOS; on Windows, use WSL")
    return ok(f"{found}, {os.cpu_count()} processors")


def check_open_files(_: Setup) -> Finding | None:
    """Check how many files a process may open."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files >= _FEWEST_FILES:
        return None
    return warning(
        f"a process may open {files} files, and readers keep many shards open",
        f"run `ulimit -n {_FEWEST_FILES}`, or more, before the program (at most {most})",
    )


def check_shared_memory(_: Setup) -> Finding | None:
    """Check the size of the shared memory through which worker processes pass batches."""
    shared = Path("/dev/shm")
    size = shutil.disk_usage(shared).total if shared.is_dir() else _SMALLEST_SHARED_MEMORY
    if size >= _SMALLEST_SHARED_MEMORY:
        return None
    return warning(
        f"/dev/shm has {size >> 20} MiB, through which worker processes pass batches",
        "start the container with `--shm-size=4g` or `--ipc=host`, or use num_workers=0",
    )


def check_gpus(_: Setup) -> Finding:
    """Check that PyTorch can use the GPUs that the driver lists."""
    gpus: list[str] = []
    with suppress(OSError, subprocess.SubprocessError):
        gpus = said_by("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split("\n")
    if not gpus:
        return note("the driver shows no NVIDIA GPU here")
    found = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({gpus[0]})"
    version = installed("torch")
    if version is None:
        return note(f"{found}; PyTorch is not installed")
    try:
        can, count, cuda = json.loads(said_by(sys.executable, "-c", _ASK_TORCH).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        return problem(f"{found}, and torch {version} cannot be imported: {error}")
    if cuda is None:
        return problem(
            f"{found}, but torch {version} was built without CUDA",
            "pip uninstall -y torch, then pip install torch (without the index of CPU wheels)",
        )
    if not can:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hides = f" CUDA_VISIBLE_DEVICES={visible!r} may hide it." if visible is not None else ""
        return problem(
            f"{found}, but torch {version} for CUDA {cuda} cannot use it.{hides}",
            "install a torch for the CUDA version that `nvidia-smi` shows, or a newer driver",
        )
    rank = os.environ.get("LOCAL_RANK", "0")
    if rank.isdecimal() and int(rank) >= count:
        return problem(
            f"LOCAL_RANK={rank}, and PyTorch sees {count} GPUs here",
            f"start at most {count} processes per host: torchrun --nproc-per-node={count}",
        )
    return ok(f"{found}; torch {version} uses it with CUDA {cuda}")


def check_launcher(_: Setup) -> Finding:
    """Check the rank and address that the launcher gave this process."""
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
    """Return the world of a job with several ranks; None for a single process."""
    from mdstorm_backend.errors import InvalidArgumentError
    from mdstorm_backend.order import find_world

    with suppress(InvalidArgumentError, ImportError):
        world = find_world()
        return world if world.size > 1 else None
    return None


def said_by(*command: str, **how: Any) -> str:
    """Run a program and return its standard output, without surrounding white space.

    Raises
    ------
    OSError, subprocess.TimeoutExpired
        If the program cannot be run, fails, or takes too long.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": _PATIENCE}
    done = subprocess.run(command, text=True, check=False, **{**pipes, **how})
    if done.returncode:
        last = (done.stderr or done.stdout or "").strip().splitlines()[-1:]
        raise OSError(f"{command[0]} ended with {done.returncode}: {''.join(last)}")
    return str(done.stdout).strip()
