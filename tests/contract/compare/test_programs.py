"""Programs give the results recorded with Petastorm, except for documented differences.

Petastorm's results are in recorded.json, so these tests do not need Petastorm.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compare.faults import FAULTS, PROGRAMS
from tests.contract.compare.record import GENERATED, RECORDED, load, source_of
from tests.contract.compare.recording_here import ROOT

from mdstorm_migrate.compare import Verdict, compare_recordings, read_recording
from mdstorm_migrate.compare.documented import DOCUMENTED

#: Sections of docs/differences.md, with strings that occur in the programs they apply to.
SECTIONS = {
    "predicates-filters-and-selectors": ("predicate=", "filters="),
    "nulls": ("'maybe'",),
    "readers": ("'note'",),
    "parquet": ("'big'",),
}
#: Programs that are quick to record, because they do not import TensorFlow.
_QUICK = [0, 20, 35, 40, 55, 80]
_QUICK_FAULTS = [n for n, fault in enumerate(FAULTS) if fault.program != "tf"][:8]
_OTHER_FAULTS = sorted({*range(len(FAULTS))} - {*_QUICK_FAULTS})
#: Groups of programs. One process records a group within the limit, even on slow machines.
_GROUPS = [
    [*map(str, _QUICK)],
    *(
        pytest.param([str(number) for number in range(first, GENERATED, 5)], marks=pytest.mark.long)
        for first in range(5)
    ),
    pytest.param([*PROGRAMS], marks=pytest.mark.long),
]


def _recorded_here(names: Iterable[str], folder: Path) -> dict[str, Any]:
    """Record programs in a separate process, because recording patches public functions."""
    path = folder / "recorded.json"
    command = [sys.executable, "-m", "tests.contract.compare.record", "--mdstorm", path, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    assert not any(recording["runs"][-1]["ended"] for recording in found.values()), done.stderr
    return found


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Recordings of the quick programs and of the first faults, made in one process."""
    names = [*map(str, _QUICK), *_names(_QUICK_FAULTS)]
    return _recorded_here(names, tmp_path_factory.mktemp("quick"))


def _names(faults: list[int]) -> list[str]:
    return [f"fault-{number}" for number in faults]


def _recorded(names: list[str], quick: dict[str, Any], folder: Path) -> dict[str, Any]:
    if quick.keys() >= {*names}:
        return {name: quick[name] for name in names}
    return _recorded_here(names, folder)


def _verdicts(old: Any, new: Any, folder: Path) -> list[Verdict]:
    paths = folder / "old.json", folder / "new.json"
    for path, recording in zip(paths, (old, new), strict=True):
        assert recording["runs"][-1]["ended"] is None
        path.write_text(json.dumps(recording))
    return compare_recordings(*(read_recording(str(path)) for path in paths))


@pytest.mark.parametrize("names", _GROUPS, ids=lambda names: f"{names[0]}-{names[-1]}")
def test_programs_are_equal_or_documented(
    names: list[str], quick: dict[str, Any], tmp_path: Path
) -> None:
    before = load(RECORDED)
    after = _recorded(names, quick, tmp_path)
    assert [*after] == names
    equal = 0
    for name, recording in after.items():
        verdicts = _verdicts(before[name], recording, tmp_path)
        differences = [each for verdict in verdicts for each in verdict.differences]
        assert not any(verdict.reason for verdict in verdicts), name
        assert all(each.section for each in differences), (name, differences)
        source = source_of(name)
        for each in differences:
            contained = SECTIONS[each.section]
            assert any(text in source or text.replace("'", '"') in source for text in contained)
        equal += not differences
    assert equal >= 0.6 * len(after)


def test_there_are_42_planted_faults() -> None:
    assert len(FAULTS) == 42


@pytest.mark.parametrize(
    "numbers", [_QUICK_FAULTS, pytest.param(_OTHER_FAULTS, marks=pytest.mark.long)], ids=len
)
def test_planted_faults_are_reported(
    numbers: list[int], quick: dict[str, Any], tmp_path: Path
) -> None:
    before = load(RECORDED)
    after = _recorded(_names(numbers), quick, tmp_path)
    missed = []
    for fault, recording in zip((FAULTS[n] for n in numbers), after.values(), strict=True):
        verdicts = _verdicts(before[fault.program], recording, tmp_path)
        found = [verdict.differences[0] for verdict in verdicts if verdict.differences]
        if (fault.kind, fault.column) not in {
            (each.kind, each.column) for each in found if not each.section
        }:
            missed.append((fault, found))
    assert not missed


def test_documentation_sections_cited_in_reports_exist() -> None:
    lines = (ROOT / "docs" / "differences.md").read_text("utf-8").splitlines()
    titles = (line.strip("# ").lower() for line in lines if line.startswith("## "))
    anchors = {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles}
    assert {section for section, _, _ in DOCUMENTED} <= anchors
