"""Selecting the files to scan."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.kit.migrating import each, invoke, write_files

from mdstorm_migrate.compare.command import compare
from mdstorm_migrate.run.discover import Skipped, discover


def make(root: Path, *names: str) -> None:
    write_files(root, dict.fromkeys(names, "petastorm"))


def found(root: Path, **options: list[str]) -> list[str]:
    paths = [one for one in discover([root], **options) if isinstance(one, Path)]
    return [path.relative_to(root).as_posix() for path in paths]


def test_tool_and_vendored_folders_are_skipped(tmp_path: Path) -> None:
    make(
        tmp_path,
        *("b.py", "a.ipynb", "src/c.pyi", "src/requirements.txt", "README.md", "x.bin"),
        *(".git/hook.py", ".venv/lib/a.py", "node_modules/a.py", "env/pyvenv.cfg", "env/a.py"),
        *("x/__pycache__/a.py", "lib/site-packages/a.py", "a.egg-info/a.py", "build/lib/a.py"),
        *("a_pb2.py", "a_pb2_grpc.py", ".ipynb_checkpoints/a.ipynb", "third_party/a.py"),
    )
    expected = ["README.md", "a.ipynb", "b.py", "src/c.pyi", "src/requirements.txt"]
    assert found(tmp_path) == expected


def test_recording_in_project_is_skipped_unless_it_is_named(tmp_path: Path) -> None:
    recording = tmp_path / "train.recording.json"
    recording.write_text('{"libraries": ["petastorm==0.12.1"]}')
    assert list(discover([tmp_path])) == []
    assert list(discover([recording])) == [recording]


def test_recorder_script_in_project_is_skipped(tmp_path: Path) -> None:
    recorder = invoke(compare, "--recorder").stdout
    write_files(tmp_path, {"record.py": recorder, "train.py": "import petastorm\n"})
    assert found(tmp_path) == ["train.py"]


def test_explicitly_given_file_in_skipped_folder_is_found(tmp_path: Path) -> None:
    make(tmp_path, ".venv/a.py")
    assert list(discover([tmp_path / ".venv" / "a.py"])) == [tmp_path / ".venv" / "a.py"]


def test_include_and_exclude_are_globs(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b.ipynb", "src/a.py", "src/deep/a.py", "tests/a.py")
    assert found(tmp_path, include=["*.ipynb"]) == ["b.ipynb"]
    assert found(tmp_path, include=["src/**"]) == ["src/a.py", "src/deep/a.py"]
    assert found(tmp_path, exclude=["src/", "b.*"]) == ["a.py", "tests/a.py"]
    assert found(tmp_path, exclude=["src/*.py", "tests"]) == ["a.py", "b.ipynb", "src/deep/a.py"]


def test_file_given_by_several_paths_is_found_once(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b/c.py")
    (tmp_path / "d.py").symlink_to("a.py")
    assert len(list(discover([tmp_path, tmp_path / "a.py", tmp_path / "b" / ".." / "a.py"]))) == 2


def test_circular_and_dangling_links_are_reported(tmp_path: Path) -> None:
    make(tmp_path, "a/b.py")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "nowhere.py").symlink_to("gone")
    skipped = {
        one.path.name: (one.reason, one.is_error)
        for one in discover([tmp_path])
        if isinstance(one, Skipped)
    }
    assert found(tmp_path) == ["a/b.py"]
    assert skipped == {
        "up": ("links to directories are not followed", False),
        "loop.py": ("a broken link", False),
        "nowhere.py": ("a broken link", False),
    }
    (named,) = discover([tmp_path / "nowhere.py"])
    assert named == Skipped(tmp_path / "nowhere.py", "a broken link", is_error=True)


def test_special_file_is_skipped_without_opening_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (one,) = discover([tmp_path])
    assert one == Skipped(tmp_path / "pipe.py", "not a regular file")
    (named,) = discover([tmp_path / "pipe.py"])
    assert isinstance(named, Skipped)
    assert named.is_error


def test_named_file_of_unknown_kind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert list(discover([tmp_path])) == []
    (named,) = discover([tmp_path / "a.parquet"])
    what = "not a kind of file that can be migrated"
    assert named == Skipped(tmp_path / "a.parquet", what, is_error=True)


IGNORE = """\
# comment
*.log.py
/top.py
deep/only.py
folder/
!folder/kept.py
a/**/z.py
**/any.py
tail/**
[ab]?.py
!b1.py
\\#hash.py
x[!y].py
some/**
!some/kept.py
most/*
!most/part/
most/part/*
!most/part/*_kept.py
!
"""
NAMES = [
    *("q.log.py", "d/q.log.py", "top.py", "d/top.py", "deep/only.py", "d/deep/only.py"),
    *("folder/x.py", "folder/kept.py", "d/folder/x.py", "a/z.py", "a/b/c/z.py", "b/a/z.py"),
    *("any.py", "d/e/any.py", "tail/x.py", "tail/y/x.py", "a1.py", "b1.py", "c1.py", "d/a2.py"),
    *("#hash.py", "xy.py", "xz.py", "x/y.py", "d/file.py", "e/own.py", "e/other.py"),
    *("some/kept.py", "some/x.py", "some/a/x.py", "most/x.py", "most/part/x.py"),
    *("most/part/a_kept.py", "most/part/a/a_kept.py"),
]


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", root, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_gitignore_rules_select_same_files_as_git(tmp_path: Path) -> None:
    make(tmp_path, *NAMES)
    (tmp_path / ".gitignore").write_text(f"{IGNORE}space.py\\ \n")
    (tmp_path / "e" / ".gitignore").write_text("own.py\n!any.py\n")
    (tmp_path / "d" / ".gitignore").write_text("!q.log.py\n")
    git(tmp_path, "init", "-q")
    listed = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard")
    expected = sorted(name for name in listed.split("\0") if name.endswith(".py"))
    assert sorted(found(tmp_path)) == expected
    # rules of the directories above also apply to a run in a subdirectory
    inside = [name.removeprefix("d/") for name in expected if name.startswith("d/")]
    assert sorted(found(tmp_path / "d")) == inside


def test_tracked_files_are_found_even_if_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "kept.py", "data/a/kept.py", "data/a/x.py", "data/b/x.py", "x.py")
    (tmp_path / ".gitignore").write_text("*.py\ndata/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--force", "kept.py", "data/a/kept.py")
    assert found(tmp_path) == ["data/a/kept.py", "kept.py"]
    assert found(tmp_path / "data" / "a") == ["kept.py"]
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # Git sets this in hooks
    assert found(tmp_path) == ["data/a/kept.py", "kept.py"]


def test_files_with_unusual_names_in_repository_are_found(tmp_path: Path) -> None:
    names = ["- a.py", "a\nb.py", '"é".py', "\udcff.py"]
    make(tmp_path, *names)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--", names[1], names[2])
    assert sorted(found(tmp_path)) == sorted(names)


def test_tracked_files_in_build_folders_are_found(tmp_path: Path) -> None:
    make(tmp_path, "build/Dockerfile", "build/lib/a.py", "dist/a.py", "vendor/a.py", "a.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--force", "build/Dockerfile", "vendor/a.py", "a.py")
    assert found(tmp_path) == ["a.py", "build/Dockerfile"]


def test_gitignore_outside_repository_has_no_effect(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "data/b.py")
    (tmp_path / ".gitignore").write_text("*.py\ndata/\n")
    (tmp_path / "data" / ".gitignore").write_text("*\n")
    assert found(tmp_path) == ["a.py", "data/b.py"]


def test_files_of_any_suffix_except_data_formats_are_found(tmp_path: Path) -> None:
    make(tmp_path, "main.tf", "Job.scala", "stack.ts", "freeze")
    make(tmp_path, "x.parquet", "y.csv", "z.png", ".gitattributes")
    assert found(tmp_path) == ["Job.scala", "freeze", "main.tf", "stack.ts"]


def test_nested_repository_uses_its_own_gitignore(tmp_path: Path) -> None:
    make(tmp_path, "x.py", "inner/x.py", "inner/y.py")
    (tmp_path / ".gitignore").write_text("x.py\n")
    (tmp_path / "inner" / ".gitignore").write_text("y.py\n")
    git(tmp_path, "init", "-q")
    git(tmp_path / "inner", "init", "-q")
    assert found(tmp_path) == ["inner/x.py"]


def test_tracked_vendored_code_is_reported_and_unchanged(tmp_path: Path) -> None:
    make(tmp_path, "third_party/x/b.py", "third_party/x/a.py", "vendor/c.py", "lib/pyvenv.cfg")
    make(tmp_path, "lib/d.py", "env/pyvenv.cfg", "env/lib/e.py", "third_party/x/0.md")
    (tmp_path / "third_party" / "x" / "other.py").write_text("import numpy\n")
    (tmp_path / ".gitignore").write_text("env/\nvendor/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    # A committed folder is not an environment, even if it has a pyvenv.cfg.
    assert found(tmp_path) == ["lib/d.py", "lib/pyvenv.cfg"]
    (skipped,) = (one for one in discover([tmp_path]) if isinstance(one, Skipped))
    assert skipped.path == tmp_path / "third_party"
    assert skipped.reason == (
        "vendored code is not migrated; Petastorm is mentioned in x/a.py and 1 more"
    )
    assert [path.name for path in skipped.files] == ["a.py", "b.py"]


def test_vendored_code_outside_a_repository_is_reported(tmp_path: Path) -> None:
    make(tmp_path, "third_party/a.py", "node_modules/a.py")
    (skipped,) = discover([tmp_path])
    assert isinstance(skipped, Skipped)
    assert skipped.path == tmp_path / "third_party"


def test_nothing_is_ignored_and_reason_is_reported_if_git_cannot_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.py", "b.py", ".git/config", "node_modules/a.py")
    (tmp_path / ".gitignore").write_text("b.py\n")
    skipped = next(iter(discover([tmp_path])))
    assert isinstance(skipped, Skipped)
    assert skipped.reason.startswith("git cannot list its files, so nothing is ignored: fatal: ")
    monkeypatch.setenv("PATH", "")
    skipped = next(iter(discover([tmp_path])))
    assert isinstance(skipped, Skipped)
    assert "git cannot be run: No such file or directory" in skipped.reason
    assert found(tmp_path) == ["a.py", "b.py"]


def test_ignored_folder_that_is_given_is_scanned(tmp_path: Path) -> None:
    make(tmp_path, "data/a.py", "data/b/c.py", "d.py")
    (tmp_path / ".gitignore").write_text("data/\n")
    git(tmp_path, "init", "-q")
    assert found(tmp_path) == ["d.py"]
    assert found(tmp_path / "data") == ["a.py", "b/c.py"]


def test_repositories_in_folder_are_found_with_their_own_gitignore(tmp_path: Path) -> None:
    make(tmp_path, "x.py", "one/x.py", "one/y.py", "two/x.py")
    (tmp_path / "one" / ".gitignore").write_text("y.py\n")
    git(tmp_path / "one", "init", "-q")
    assert found(tmp_path) == ["one/x.py", "two/x.py", "x.py"]
    assert found(tmp_path, exclude=["one/x.py"]) == ["two/x.py", "x.py"]


def test_files_in_submodule_without_repository_are_found(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "part/b.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},part")
    assert found(tmp_path) == ["a.py", "part/b.py"]


def test_tracked_file_that_was_deleted_is_not_found(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    (tmp_path / "a.py").unlink()
    assert list(discover([tmp_path])) == [tmp_path / "b.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
@each(False, True)
def test_folder_that_cannot_be_read_is_an_error(is_repository: bool, tmp_path: Path) -> None:
    root = tmp_path / "src"
    make(root, "a.py", "closed/b.py")
    if is_repository:
        git(tmp_path, "init", "-q")
    (root / "closed").chmod(0)
    expected = Skipped(root / "closed", "Permission denied", is_error=True)
    assert list(discover([root])) == [expected, root / "a.py"]


def test_git_is_called_once_and_only_in_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, *(f"p{number}/m.py" for number in range(5)))
    asked = []
    ask = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: asked.append(a) or ask(*a, **k))
    assert len(found(tmp_path)) == 5
    assert asked == []
    git(tmp_path, "init", "-q")
    asked.clear()
    (tmp_path / ".gitignore").write_text("p1\np2/m.py\n")
    assert len(found(tmp_path)) == 3
    assert len(asked) == 1
