"""Whole projects, with their requirements after the migration.

The files of a project are concatenated in ``cases/NAME.txt``; ``cases/NAME.after.txt`` contains the
files that ``-w --unsafe`` changes.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.kit.migrating import each, invoke, write_files

from mdstorm_migrate.cli.migrate import migrate as command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parent / "cases"
NAMES = sorted(p.stem for p in CASES.glob("*.txt") if not p.name.endswith(".after.txt"))

PARSERS: dict[str, Callable[[str], object]] = {
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}


def files_of(project: str) -> dict[str, str]:
    """Return the text of a project's files, keyed by path."""
    _, *parts = re.split(r"^=== (.+)\n", project, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # so that messages have relative paths
    return tmp_path


def write(*options: str) -> None:
    done = invoke(command, "-w", "--no-diff", "-j", "1", *options, ".")
    assert done.exit_code == 0, done.stderr


@each(*NAMES)
def test_migrated_project_equals_expected_files(name: str, inside: Path) -> None:
    before = files_of((CASES / f"{name}.txt").read_text())
    write_files(inside, before)
    for _ in range(2):
        write("--unsafe")
        found = {path: (inside / path).read_text() for path in before}
        changed = {path: text for path, text in found.items() if text != before[path]}
        assert changed == files_of((CASES / f"{name}.after.txt").read_text())
    for path in inside.rglob("*"):
        if path.suffix in PARSERS:
            PARSERS[path.suffix](path.read_text())


def test_each_project_has_expected_files() -> None:
    outcomes = {path.name.removesuffix(".after.txt") for path in CASES.glob("*.after.txt")}
    assert outcomes == set(NAMES)


def test_summary_counts_files_that_keep_petastorm(inside: Path) -> None:
    (inside / "requirements.txt").write_text("petastorm\n")
    for name, counted in (("a.py", "a.py needs"), ("b.py", "a.py and 1 more need")):
        (inside / name).write_text("from petastorm.reader import ArrowReaderWorker\n")
        seen = invoke(command, "-v").stderr
        assert f"Petastorm is still required, because {counted} it" in seen
