"""Programs killed at their n-th change to a directory, and the files they leave behind."""

import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.conftest import SECONDS_PER_TEST

from mdstorm_backend import open_dataset

#: Code that kills its own process just before the n-th change to a directory.
KILLS_ITSELF = """
import os, signal, sys
watched, kill_at, changes = sys.argv[1], int(sys.argv[2]), [0]

def count(event, arguments):
    if not (arguments and isinstance(arguments[0], str) and arguments[0].startswith(watched)):
        return
    changing = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    if event in changing or event == "open" and arguments[2] & writing:
        changes[0] += 1
        if changes[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
"""
#: Modules that a conversion imports lazily.
_IMPORTED_LATER = ("fsspec.implementations.local", "pandas", "pyarrow.parquet", "zstandard")


def run_killed(
    convert: Callable[[Path, Path], None], source: Path, target: Path, kill_at: int
) -> int | None:
    """Convert in a new process; return the number of changes to `target`, or None if killed.

    The process is forked from one that has imported everything and started no threads.
    """
    forks = get_context("forkserver")
    forks.set_forkserver_preload([convert.__module__, *_IMPORTED_LATER])
    receiver, sender = forks.Pipe(duplex=False)
    arguments = (convert, source, target, kill_at, sender)
    process = forks.Process(target=_count_changes, args=arguments)
    process.start()
    sender.close()
    process.join(SECONDS_PER_TEST)
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0
    changes: int = receiver.recv()
    return changes


def _count_changes(
    convert: Callable[[Path, Path], None],
    source: Path,
    target: Path,
    kill_at: int,
    sender: Connection,
) -> None:
    sys.argv = ["", str(target), str(kill_at)]
    program: dict[str, Any] = {}
    exec(KILLS_ITSELF, program)
    convert(source, target)
    sender.send(program["changes"][0])


def ids_of(directory: Path) -> list[int]:
    """Read all rows of a dataset and return their ids."""
    ids: list[int] = open_dataset(str(directory)).to_table()["id"].to_pylist()
    return ids


def leftovers(directory: Path) -> set[str]:
    """Return the names of files that are not part of the dataset."""
    dataset = open_dataset(str(directory))
    own = {Path(url).name for url in dataset.file_urls} | {"index.json", "_mdstorm"}
    return {path.name for path in directory.iterdir()} - own
