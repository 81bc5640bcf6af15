"""Run a function in a process of its own, for libraries that do not survive a fork.

A forked child, such as a worker of PyTorch's DataLoader, may be allowed no children of its own by
multiprocessing, so this is a plain program.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_PROGRAM = """
import pickle, sys
from mdstorm_backend.tables.fresh_process import answer
sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))
"""


def run_fresh(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function of a module in a new process; its result or error are passed back.

    Arguments go through a pipe, and appear nowhere else.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=pickle.dumps((function, arguments)),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
    )
    result, error = pickle.loads(done.stdout)  # noqa: S301  # what `answer` returned
    if error is not None:
        raise error
    found: _Result = result
    return found


def answer(call: bytes) -> bytes:
    """Call a function for `run_fresh`, and return the result or the error for it."""
    function, arguments = pickle.loads(call)  # noqa: S301  # what `run_fresh` sent
    try:
        return pickle.dumps((function(*arguments), None))
    except Exception as error:
        return pickle.dumps((None, error))
