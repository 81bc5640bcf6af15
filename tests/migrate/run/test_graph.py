"""Names are followed from file to file with work that grows as the files do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.migrate.run.test_together import SCHEMA, WORKER, migrated

from mdstorm_migrate.run import index
from mdstorm_migrate.run.graph import Origins


def _chain(count: int) -> dict[str, str]:
    """Each file hands the schema of the one before on, to one that stays."""
    files = {f"m{n}.py": f"from m{n - 1} import SCHEMA\n" for n in range(1, count)}
    return files | {"m0.py": "from base import SCHEMA\n"}


def _star(count: int) -> dict[str, str]:
    """One file takes from all others, and each of these from it."""
    names = range(count - 1)
    hub = "from base import SCHEMA\n" + "".join(f"from m{n} import S{n}\n" for n in names)
    return {f"m{n}.py": f"from hub import SCHEMA\nS{n} = SCHEMA\n" for n in names} | {
        "hub.py": hub,
        f"m{count - 1}.py": "from hub import *\n",
    }


def _parts(count: int) -> dict[str, str]:
    """All files have the same name, each in a folder of its own."""
    files = {f"p{n}/part.py": f"from p{n - 1}.part import SCHEMA\n" for n in range(1, count)}
    last = f"from p{count - 1}.part import SCHEMA\n"
    return files | {"p0/part.py": "from base import SCHEMA\n", f"m{count - 1}.py": last}


@pytest.mark.parametrize("make", [_chain, _star, _parts])
def test_work_grows_as_the_number_of_files_does(
    make: Callable[[int], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    parsed: list[Path] = []
    given_by, exchange_of = Origins._given_by, index._exchange_of
    monkeypatch.setattr(
        Origins, "_given_by", lambda self, path: looks.append(path) or given_by(self, path)
    )
    monkeypatch.setattr(
        index, "_exchange_of", lambda path: parsed.append(path) or exchange_of(path)
    )
    for count in (20, 60):
        looks.clear()
        parsed.clear()
        last = f"m{count - 1}"
        files = {
            **make(count),
            "base.py": SCHEMA,
            "work.py": f"{WORKER}from {last} import SCHEMA\n",
        }
        assert migrated(tmp_path / str(count), files) == {}  # all wait for the one that stays
        assert len(parsed) == len(set(parsed)) == len(files) - 2
        assert len(looks) <= 6 * len(files)
