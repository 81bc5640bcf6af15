"""Record the states of the programs, and the rows that follow.

``python -m tests.contract.states.record`` adds the programs that are not recorded yet, and leaves
the others as they are. Programs over torchdata are recorded where it is installed.
"""

import importlib.util
import json
import tempfile
from pathlib import Path

from tests.contract.states.programs import OF_TORCHDATA, PROGRAMS, copied

#: States whose exact order has rule 0, and those of the elastic order.
RECORDED = Path(__file__).with_name("recorded.json")
#: States whose exact order has rule 1.
RECORDED_BY_RULE_1 = Path(__file__).with_name("recorded_by_rule_1.json")


def main() -> None:
    found = json.loads(RECORDED_BY_RULE_1.read_text()) if RECORDED_BY_RULE_1.exists() else {}
    programs = PROGRAMS if importlib.util.find_spec("torchdata") is None else OF_TORCHDATA
    programs = {name: one for name, one in programs.items() if "elastic" not in name}
    with tempfile.TemporaryDirectory() as directory:
        at = copied(Path(directory))
        for name, program in programs.items():
            if name not in found:
                states = program.states(at)
                found[name] = {"states": states, "following": program.following(at, states)}
                print(name)
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    RECORDED_BY_RULE_1.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
