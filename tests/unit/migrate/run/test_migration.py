"""Editing and writing files, and files that cannot be read."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from random import Random

import pytest
from tests.kit.migrating import each, run
from tests.slow.fuzz.mutations import damaged_bytes

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import Class, Edit, EditError
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import Rule
from mdstorm_migrate.run import migration, together
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.syntax import check_format
from mdstorm_migrate.run.writing import FileWriteError, write_file

TEXT = "petastorm = 1\nother = 2\n"


@each(
    ({}, TEXT),
    ({"unsafe": True}, "a = 1\nb = 2\n"),
    ({"unsafe": True, "ignore": ["PM902"]}, TEXT),
    ({"unsafe": True, "select": ["PM901"]}, TEXT),
)
def test_group_of_edits_is_applied_completely_or_not_at_all(
    options: dict[str, object], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(code: str, cls: Class, old: str, new: str) -> Rule:
        def check(module: PythonModule) -> Iterator[Edit]:
            if (start := module.text.find(old)) >= 0:
                yield Edit(code, cls, start, start + len(old), new, "renamed", "together")

        return Rule(code, "", cls, ("python",), check)

    rules = [rule("PM901", "exact", "petastorm", "a"), rule("PM902", "review", "other", "b")]
    found = {False: rules, True: []}
    monkeypatch.setattr(
        migration, "rules_for", lambda kind, *, is_about_needs: found[is_about_needs]
    )
    assert migrate(TEXT, **options).output == output  # type: ignore[arg-type]


@each(
    "make_reader(u,  # mdstorm: ignore[PM113]\n    shuffel=1)\n",
    "make_reader(u,\n    shuffel=1,\n)  # mdstorm: ignore\n",
)
def test_ignore_comment_on_any_line_suppresses_findings_for_statement(call: str) -> None:
    result = migrate(f"from petastorm import make_reader\n{call}")
    assert result.output == f"from mdstorm import make_reader\n{call}"
    assert result.findings == ()


@each(
    ("pyproject.toml", 'a = "b"\n', 'a = "b", "c"\n'),
    ("Pipfile", 'a = "b"\n', 'a = "b", "c"\n'),
    ("job.JSON", '{"a": "b"}', '{"a": "b", }'),
    ("tox.ini", "[a]\nb = c\n", "b = c\n"),
)
def test_edit_that_breaks_syntax_raises_edit_error(name: str, good: str, bad: str) -> None:
    path = PurePath(name)
    check_format(path, good, good)
    check_format(path, bad, bad)
    check_format(PurePath("notes.txt"), good, bad)
    with pytest.raises(EditError, match="would not parse"):
        check_format(path, good, bad)


def test_broken_output_is_reported_and_not_written(
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


@pytest.mark.parametrize("has_owners", [True, False])
def test_write_keeps_mode_and_owner_and_leaves_no_temporary_file(
    has_owners: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    if not has_owners:  # as on Windows
        monkeypatch.delattr(os, "chown")
    elif os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    write_file(path, b"old", b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == ["a.py"]


def test_write_through_symlink_keeps_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a.py"
    target.write_bytes(b"old")
    link = tmp_path / "b.py"
    link.symlink_to("there/a.py")
    write_file(link, b"old", b"new", backup=".orig")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (tmp_path / "there" / "a.py.orig").read_bytes() == b"old"


def refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


@each(
    (b"newer", os.fsync, "changed by another program"),
    (b"old", refuse, "Permission denied"),
    (None, os.fsync, "No such file"),
)
def test_failed_write_leaves_old_content(
    there: bytes | None, fsync: object, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    if there is not None:
        path.write_bytes(there)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FileWriteError, match=reason):
        write_file(path, b"old", b"new")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [there] * path.exists()


USE = "from petastorm import make_reader\n"
CORPORA = ("corpus", "programs", "projects", "wild", "wild2")
SUFFIXES = (".cfg", ".ipynb", ".py", ".sh", ".toml", ".yml")


def migrate_file(path: Path) -> FileOutcome | None:
    return next(iter(run([path], Settings(), write=True)), None)


def reason(outcome: FileOutcome | None) -> str:
    assert outcome is not None
    assert not outcome.changed
    (problem,) = outcome.outcome.problems
    return problem.reason


def test_oversized_file_is_reported_if_it_uses_petastorm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "LARGEST", 1 << 20)
    path = tmp_path / "huge.py"
    path.write_text(USE + "#\n" * (1 << 20))
    assert reason(migrate_file(path)) == "larger than 1 MiB"
    assert path.read_text().startswith(USE)
    path.write_text("#\n" * (1 << 20))
    assert migrate_file(path) is None


@each(  # errors are simulated, because root can read every file
    (Path, "read_bytes", refuse, "Permission denied"),
    (migration, "parse_python", None, "please report it: TypeError("),
)
def test_error_in_one_file_is_reported_for_that_file(
    owner: object, name: str, broken: object, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "use.py"
    path.write_text(USE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, broken)
        assert words in reason(migrate_file(path))
    assert path.read_text() == USE


def test_each_file_with_petastorm_and_its_result_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        text = USE if number % 100 == 0 else "from mdstorm import make_reader\n"
        (tmp_path / f"m{number:03}.py").write_text(text)
    parsed = []
    parse = migration.parse_python
    monkeypatch.setattr(migration, "parse_python", lambda code: parsed.append(code) or parse(code))
    outcomes = run(sorted(tmp_path.iterdir()), Settings())
    assert [one.path.name for one in outcomes] == ["m000.py", "m100.py"]
    before, after = USE, USE.replace("petastorm", "mdstorm")
    assert parsed == [before, before, after, after]


@each(
    ("a.py", "from petastorm import make_reader\n"),
    ("a.py", "# %%\nfrom petastorm import make_reader\n# %%\nProse it is.\n"),
    ("a.ipynb", '{"cells": [{"cell_type": "code", "source": "from petastorm import spark"}]}'),
)
def test_edit_that_breaks_syntax_is_not_applied(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdstorm_migrate.rules.imports.renamed", lambda old: "mdstorm (")
    monkeypatch.setattr(
        "mdstorm_migrate.rules.imports.moved_to",
        lambda module, binding: ("mdstorm (", binding.name),
    )
    result = migrate(text, path=path)
    assert result.output == text
    assert "would" in str(result.errors[0])


@pytest.mark.parametrize("encoding", ["rot13", "idna", "undefined", "hex"])
@pytest.mark.parametrize("use", [USE, "from helper import x\nimportlib.import_module('a')\n"])
def test_encoding_that_is_not_a_text_encoding_is_reported(
    tmp_path: Path, encoding: str, use: str
) -> None:
    (tmp_path / "a.py").write_text(USE + "def (:\n")
    path = tmp_path / "b.py"
    path.write_text(f"# coding: {encoding}\n{use}")
    found = {one.path: one for one in run([tmp_path / "a.py", path], Settings(), write=True)}
    assert (path in found) == (use is USE)
    assert all(one.outcome.problems for one in found.values())
    assert path.read_text() == f"# coding: {encoding}\n{use}"


def test_file_names_may_contain_any_bytes(tmp_path: Path) -> None:
    broken = tmp_path / "a.py"
    broken.write_text(USE + "def (:\n")
    paths = [broken]
    for name in (b"b\xff.py", b"c\xff.py"):
        paths.append(tmp_path / os.fsdecode(name))
        paths[-1].write_text(f"import importlib\nimportlib.import_module('json')\n{USE}")
    outcomes = list(run(paths, Settings(), write=True))
    assert [one.changed for one in outcomes] == [False, True, True]


@each(Path(), Path("part"))
def test_file_in_folder_that_is_a_package_is_migrated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").touch()
    (folder / "use.py").write_text(USE)
    outcome = migrate_file(folder / "use.py")
    assert outcome is not None
    assert outcome.changed


def test_dangling_link_is_skipped(tmp_path: Path) -> None:
    for name in ("data", "old.py"):
        (tmp_path / name).symlink_to(tmp_path / "missing")
    assert list(run(sorted(tmp_path.iterdir()), Settings(), write=True)) == []


@pytest.mark.long
def test_migration_of_damaged_file_raises_no_error_and_is_idempotent() -> None:
    found = (p for root in CORPORA for p in (Path(__file__).parents[1] / root).rglob("*.*"))
    files = sorted(p for p in found if p.suffix in SUFFIXES and p.stat().st_size < 6_000)
    assert len(files) > 100
    for seed in range(8_000):
        random = Random(seed)
        path = random.choice(files)
        damaged = damaged_bytes(path.read_bytes(), random)
        first = migrate(damaged, path=path.name)
        if not first.errors:
            assert migrate(first.output, path=path.name).output == first.output, (seed, path)


@each(
    ("a.py", "import os\r\nfrom petastorm.hdfs import namenode\rx = 1\r"),
    ("requirements.txt", "numpy\rgit+https://github.com/uber/petastorm\r"),
    ("a.sh", "ls\rspark-submit --py-files petastorm.zip a.py\r"),
    ("environment.yml", "name: x\rdependencies:\n  - petastorm=0.12\n  - f::petastorm\n"),
)
def test_file_with_lone_carriage_returns_gets_at_most_one_todo_comment(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, newline="")
    migrate_file(path)
    once = path.read_bytes()
    migrate_file(path)
    assert path.read_bytes() == once
    assert once.count(b"TODO(mdstorm)") <= 1
