"""Write ``docs/migrate/automatic.md``: the share of the corpus that is migrated automatically.

A file counts for each pattern that it contains. It is migrated automatically if nothing in it needs
manual review and it no longer imports anything from Petastorm.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TypeAlias

from mdstorm_migrate.audit import CONF, features_of
from mdstorm_migrate.run.outcome import Outcome, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources import find_source

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "migrate" / "automatic.md"
CORPUS = ROOT / "tests" / "migrate"
FOLDERS = (
    "programs",
    "corpus/before",
    "wild/programs",
    "wild/projects",
    "wild/unrunnable",
    "wild2/programs",
    "wild2/unrunnable",
)

#: Columns of the table: the command's options and the settings that they stand for.
WAYS = {
    "`-w`": Settings(),
    "`-w --unsafe`": Settings(unsafe=True),
}
ALL = "all files"
#: The feature for notebook cells that contain no Python; this page does not count it.
NOT_PYTHON = "Cells in other languages"
#: Features recognised by names that the migration does not change: methods, and Spark's key.
SAME = {"Spark converter: PyTorch loaders", "Spark converter: TensorFlow datasets", CONF}

Counts: TypeAlias = Counter[tuple[str, str]]

_HEAD = """\
---
orphan: true
---

# How much is migrated automatically

`scripts/count_automatic.py` writes this page. It migrates the project's own programs and
notebooks that use Petastorm, {files} files:

- a few programs for each way in which people use Petastorm (`tests/migrate/programs` and `corpus`);
- programs by authors who had not read the rules of the migration (`wild` and `wild2`), without
  programs that show nothing new.

Rare uses count as much as common ones, and some uses, such as imports of Petastorm's internals,
cannot be migrated. The percentages therefore show what the tool can do, not how much of your
repository it will migrate: for that, run `mdstorm audit`.

Tests check every rewrite of the class `exact`: programs compute the same before and after, and
other files match the expected text to the byte.

A file counts for each pattern that it contains. It counts as migrated automatically if no TODO is
left in it, nothing waits for `--unsafe`, and nothing is imported from Petastorm any more. The
columns show the share of such files.

| pattern | files | {ways} |
|---|--:|{lines}
"""


def page() -> str:
    """Return the page."""
    paths = sorted(path for name in FOLDERS for path in _files(CORPUS / name))
    files: Counter[str] = Counter()
    done: Counts = Counter()
    for path in paths:
        data = path.read_bytes()
        patterns = patterns_of(data, path)
        if not patterns:  # a file without Petastorm in a project that uses it
            continue
        patterns |= {ALL}
        files.update(patterns)
        for way, settings in WAYS.items():
            if _is_automatic(migrated(path, data, settings), path):
                done.update((pattern, way) for pattern in patterns)
    head = _HEAD.format(files=files[ALL], ways=" | ".join(WAYS), lines="--:|" * len(WAYS))
    patterns_in_order = sorted(
        files, key=lambda pattern: (pattern != ALL, -files[pattern], pattern)
    )
    return head + "".join(_row(pattern, files[pattern], done) for pattern in patterns_in_order)


def patterns_of(data: bytes, path: Path) -> set[str]:
    """Return the Petastorm features that a file uses."""
    return {feature for feature, _ in features_of(data, path)} - {NOT_PYTHON}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.*") if path.suffix in (".py", ".ipynb")]


def migrated(path: Path, data: bytes, settings: Settings) -> Outcome:
    """Migrate a file from the corpus."""
    source = find_source(path, data)
    assert source is not None
    return migrate_alone(data, path, source, settings)


def _is_automatic(outcome: Outcome, path: Path) -> bool:
    left = any(found.cls in ("manual", "review") for found in outcome.findings)
    uses = patterns_of(outcome.after, path) - SAME
    return not (left or outcome.problems or uses)


def _row(pattern: str, files: int, done: Counts) -> str:
    shares = (f"{done[pattern, way] / files:.0%}" for way in WAYS)
    return f"| {pattern} | {files} | {' | '.join(shares)} |\n"


if __name__ == "__main__":
    TARGET.write_text(page(), "utf-8", newline="\n")
