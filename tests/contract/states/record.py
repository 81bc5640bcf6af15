"""Record the states of the programs, and the rows that follow.

``python -m tests.contract.states.record`` adds the programs that are not recorded yet, and leaves
the others as they are. Programs over torchdata are recorded where it is installed.
"""

import importlib.util
import json
import tempfile
from pathlib import Path

from tests.contract.states.programs import OF_TORCHDATA, PROGRAMS, copied

RECORDED = Path(__file__).with_name("recorded.json")


def main() -> None:
    found = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    programs = PROGRAMS if importlib.util.find_spec("torchdata") is None else OF_TORCHDATA
    with tempfile.TemporaryDirectory() as directory:
        at = copied(Path(directory))
        for name, program in programs.items():
            if name not in found:
                states = program.states(at)
                found[name] = {"states": states, "following": program.following(at, states)}
                print(name)
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
