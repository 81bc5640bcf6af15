"""Imports MosaicML Streaming once, and runs scripts of this folder in forks of this process.

Each line that it reads is a JSON list: a script, a file for what it prints, another one for its
errors, how many seconds it may take, and its arguments. For each it prints 0 if the script
succeeded.
"""

import json
import os
import runpy
import signal
import sys

import streaming  # noqa: F401  for the scripts


def run(script: str, output: str, errors: str, seconds: int, *arguments: str) -> None:
    """Run a script, and end this process."""
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
