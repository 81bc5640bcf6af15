"""Import MosaicML Streaming once, and run scripts from this folder in forks of this process.

Each input line is a JSON list: a script, files for its output and its errors, a time limit in
seconds, and its arguments. Prints a wait status for each line, which is 0 if the script succeeded.
"""

import json
import os
import runpy
import signal
import sys

import streaming  # noqa: F401  for the scripts


def run(script: str, output: str, errors: str, seconds: int, *arguments: str) -> None:
    """Run a script, and exit."""
    signal.alarm(seconds)
    for number, path in ((1, output), (2, errors)):
        with open(path, "w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
    sys.exit()


for line in sys.stdin:
    if not os.fork():
        run(*json.loads(line))
    print(os.wait()[1], flush=True)
