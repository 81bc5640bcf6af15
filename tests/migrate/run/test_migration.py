"""What becomes of the edits that rules make of a file, and how it is written."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest
from tests.migrate.checks import each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import Class, Edit, EditError
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import Rule
from mdstorm_migrate.run import migration
from mdstorm_migrate.run.migration import check_format
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import WriteError, run, write_file

TEXT = "petastorm = 1\nother = 2\n"


@each(
    ({}, TEXT),
    ({"unsafe": True}, "a = 1\nb = 2\n"),
    ({"unsafe": True, "ignore": ["PM902"]}, TEXT),
    ({"unsafe": True, "select": ["PM901"]}, TEXT),
)
def test_edits_of_a_group_are_applied_all_or_none(
    options: dict[str, object], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(code: str, cls: Class, old: str, new: str) -> Rule:
        def check(module: PythonModule) -> Iterator[Edit]:
            if (start := module.text.find(old)) >= 0:
                yield Edit(code, cls, start, start + len(old), new, "renamed", "together")

        return Rule(code, "", cls, ("python",), check)

    rules = [rule("PM901", "exact", "petastorm", "a"), rule("PM902", "review", "other", "b")]
    monkeypatch.setattr(migration, "all_rules", lambda: rules)
    assert migrate(TEXT, **options).output == output  # type: ignore[arg-type]


@each(
    "make_reader(u,  # mdstorm: ignore[PM113]\n    shuffel=1)\n",
    "make_reader(u,\n    shuffel=1,\n)  # mdstorm: ignore\n",
)
def test_a_comment_on_any_line_of_a_statement_keeps_rules_away(call: str) -> None:
    result = migrate(f"from petastorm import make_reader\n{call}")
    assert result.output == f"from mdstorm import make_reader\n{call}"
    assert result.findings == ()


@each(
    ("pyproject.toml", 'a = "b"\n', 'a = "b", "c"\n'),
    ("Pipfile", 'a = "b"\n', 'a = "b", "c"\n'),
    ("job.JSON", '{"a": "b"}', '{"a": "b", }'),
    ("tox.ini", "[a]\nb = c\n", "b = c\n"),
)
def test_what_parsed_must_go_on_parsing(name: str, good: str, bad: str) -> None:
    path = PurePath(name)
    check_format(path, good, good)
    check_format(path, bad, bad)
    check_format(PurePath("notes.txt"), good, bad)
    with pytest.raises(EditError, match="would not parse"):
        check_format(path, good, bad)


def test_an_outcome_that_would_not_parse_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "requirement_of", lambda *_: 'mdstorm" "x')
    path = tmp_path / "pyproject.toml"
    before = '[project]\nname = "x"\ndependencies = ["petastorm"]\n'
    path.write_text(before)
    (found,) = run([path], Settings(), write=True)
    (problem,) = found.outcome.problems
    assert problem.reason.startswith("cannot be changed: the result would not parse: ")
    assert path.read_text() == before


def test_mode_and_owner_stay_and_nothing_is_left_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    write_file(path, b"old", b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a.py"
    target.write_bytes(b"old")
    link = tmp_path / "b.py"
    link.symlink_to("there/a.py")
    write_file(link, b"old", b"new", backup=".orig")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (tmp_path / "there" / "a.py.orig").read_bytes() == b"old"


def test_a_file_that_somebody_else_changes_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"newer")
    with pytest.raises(WriteError, match="changed by another program"):
        write_file(path, b"old", b"new")
    assert path.read_bytes() == b"newer"


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left"):
        write_file(path, b"old", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="No such file"):
        write_file(tmp_path / "a.py", b"old", b"new")
