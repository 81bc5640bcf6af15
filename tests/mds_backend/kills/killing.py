"""Programs that are killed at their n-th change of a directory, and the files that may remain."""

import re
from pathlib import Path

from tests.programs import run_program

from mdstorm_backend import open_dataset

#: Kills the process before its n-th change of a directory; prints the number of changes at its end.
KILLS_ITSELF = """
import atexit, os, signal, sys
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
atexit.register(lambda: print("changes:", changes[0]))
"""


def run_killed(program: str, target: Path, kill_at: int, *arguments: object) -> int | None:
    """Run a program; return how often it changed the directory, or None if it was killed."""
    cwd = target.parent
    done = run_program(
        KILLS_ITSELF + program, target, kill_at, *arguments, cwd=cwd, expect_success=False
    )
    found = re.search(r"^changes: (\d+)$", done.stdout, re.MULTILINE)
    assert found or done.returncode == -9, done.stderr
    return int(found[1]) if found else None


def ids_of(directory: Path) -> list[int]:
    """Read all rows of a dataset and return their ids."""
    ids: list[int] = open_dataset(str(directory)).to_table()["id"].to_pylist()
    return ids


def leftovers(directory: Path) -> set[str]:
    """Return the names of the files that are not part of the dataset."""
    dataset = open_dataset(str(directory))
    own = {Path(url).name for url in dataset.file_urls} | {"index.json", "_mdstorm"}
    return {path.name for path in directory.iterdir()} - own
