"""A stand-in for the launcher of Databricks' serverless GPU compute.

It is written from Databricks' public documentation, and shares no code with ``databricks-sdk-air``.
`distributed` decorates a function. Calling its `distributed` method pickles the function, and runs
it in one process for each "GPU" of this machine, with torchrun's variables and without PySpark's.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import cloudpickle
import torch
from tests.kit.programs import free_port

#: The names under which the launcher is imported, by environment versions: from 6, and up to 5.
PACKAGES = ("databricks.air", "serverless_gpu")
_PROGRAM = """
import cloudpickle, sys
function, args, kwargs = cloudpickle.load(open(sys.argv[1], "rb"))
cloudpickle.dump(function(*args, **kwargs), open(sys.argv[2], "wb"))
"""


def install(package: str) -> None:
    """Let this process import the launcher under one of its names."""
    module = ModuleType(package)
    vars(module)["distributed"] = distributed
    sys.modules[package] = module


class DistributedFunction:
    """A decorated function."""

    def __init__(self, function: Callable[..., Any], processes: int, timeout: float) -> None:
        self._function, self._processes, self._timeout = function, processes, timeout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def distributed(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run the function in all processes, and return their results, by rank."""
        size = str(self._processes)
        shared = {
            **{key: value for key, value in os.environ.items() if "SPARK" not in key},
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        with TemporaryDirectory() as directory:
            pickled = Path(directory, "function")
            pickled.write_bytes(cloudpickle.dumps((self._function, args, kwargs)))
            results = [Path(directory, str(rank)) for rank in range(self._processes)]
            processes = [
                subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, pickled, result],
                    env={**shared, "RANK": result.name, "LOCAL_RANK": result.name},
                )
                for result in results
            ]
            try:
                codes = [process.wait(self._timeout) for process in processes]
            finally:
                for process in processes:
                    process.kill()
            if any(codes):
                raise RuntimeError(f"the processes ended with {codes}")
            return [cloudpickle.loads(result.read_bytes()) for result in results]


def distributed(
    num_accelerators: int | None = None,
    accelerator_type: str | None = None,
    *,
    timeout: float = 3 * 60 * 60,
    remote: bool = False,
    gpus: int | None = None,
    gpu_type: str | None = None,
) -> Callable[[Callable[..., Any]], DistributedFunction]:
    """Return a decorator for functions that run on GPUs of this machine, by default on all."""
    if gpus is not None or gpu_type is not None:
        warnings.warn("use num_accelerators and accelerator_type", FutureWarning, stacklevel=2)
    found = torch.cuda.device_count()
    wanted = num_accelerators or gpus or found
    if remote or wanted > found:
        raise ValueError(f"{wanted} GPUs are not on this machine, which has {found}")
    return lambda function: DistributedFunction(function, wanted, timeout)
