"""Mutants of the list are found again in changed code, and drawn ones have tests."""

import runpy
from pathlib import Path

import pytest

_SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "mutants.py"))

_BEFORE = "def size(rows):\n    if rows > 1:\n        return 2\n    return 1\n"
_MUTANT = _SCRIPT["Mutant"](
    "size.1", "size.py", "    if rows > 1:\n", "    if rows >= 1:\n", ("tests",)
)


def test_mutant_is_applied_after_its_lines_moved() -> None:
    moved = "import os\n\n\n" + _BEFORE + "\n\nlast = os.name\n"
    assert _MUTANT.applied_to(moved) == moved.replace("rows > 1", "rows >= 1")


@pytest.mark.parametrize(
    "source",
    [_BEFORE.replace("rows > 1", "1 < rows"), _BEFORE + _BEFORE, None],
    ids=["text replaced", "text twice", "file removed"],
)
def test_mutant_without_its_text_is_reported_as_gone(source: str | None, tmp_path: Path) -> None:
    if source is not None:
        (tmp_path / "size.py").write_text(source)
    assert _SCRIPT["measure"](tmp_path, _MUTANT, []) == ("gone", "")


def test_drawn_mutants_compile_and_differ_from_their_file() -> None:
    drawn = list(
        _SCRIPT["draw"](100, 1, ["compat/mdstorm/doctor", "migrate/mdstorm_migrate/report"])
    )
    assert len(drawn) == 100
    for mutant in drawn:
        source = Path(_SCRIPT["ROOT"], mutant.file).read_text("utf-8")
        mutated = mutant.applied_to(source)
        compile(mutated, mutant.file, "exec")
        assert mutated != source


def test_each_module_has_an_area_with_tests() -> None:
    root = _SCRIPT["ROOT"]
    for package in _SCRIPT["PACKAGES"]:
        for path in (root / package).rglob("*.py"):
            folders = _SCRIPT["area"](str(path.relative_to(root)))
            assert folders
            for folder in folders:
                assert folder != root / "tests", path
                assert any(folder.rglob("test_*.py")), path


@pytest.mark.parametrize(("rows", "result"), [(1, "killed"), (2, "lived")])
def test_mutant_is_killed_if_a_test_fails(rows: int, result: str, tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text(_BEFORE)
    (tmp_path / "test_size.py").write_text(
        f"from size import size\n\n\ndef test_size():\n    assert size({rows}) == {rows}\n"
    )
    by = "test_size.py::test_size" if result == "killed" else ""
    assert _SCRIPT["measure"](tmp_path, _MUTANT, [("", ["test_size.py"])]) == (result, by)
    assert (tmp_path / "size.py").read_text() == _BEFORE
    assert _SCRIPT["failing_tests"](tmp_path, ["test_size.py::test_size"]) == set()
