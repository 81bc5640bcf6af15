"""The command's output, the files it writes, and its exit code."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.kit.migrating import each, invoke, write_files, write_modules

from mdstorm_migrate.cli.migrate import migrate as command
from mdstorm_migrate.rules import all_rules

BEFORE = "from petastorm import make_reader\n"
AFTER = "from mdstorm import make_reader\n"
BROKEN = "import petastorm\nprint 'x'\n"
OLD = "from petastorm.pytorch import BatchDataLoader\n"
INTERNAL = "from petastorm.unischema import _fullmatch\n"

run = partial(invoke, command)


def test_command_without_write_option_changes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(tmp_path, a=BEFORE, b="x = 1\n")
    result = run(tmp_path)
    assert result.exit_code == 0
    path = (tmp_path / "a.py").as_posix().lstrip("/")
    assert result.stdout.startswith(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{BEFORE}+{AFTER}")
    monkeypatch.chdir(tmp_path)  # paths in the diff are relative to this directory
    assert run(tmp_path).stdout.startswith("--- a/a.py\n+++ b/a.py\n")
    assert result.stderr.startswith("1 file would change\n      1  exact edit\n")
    assert result.stderr.endswith("nothing was written; add `-w` to write\n")
    assert (tmp_path / "a.py").read_text() == BEFORE


def test_second_run_after_write_finds_nothing(tmp_path: Path) -> None:
    write_modules(tmp_path, a=BEFORE)
    result = run("-w", "--no-diff", "--backup", ".orig", tmp_path)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "1 file changed" in result.stderr
    assert (tmp_path / "a.py").read_text() == AFTER
    assert (tmp_path / "a.py.orig").read_text() == BEFORE
    assert run("--check", tmp_path).exit_code == 0


@each(
    ("x = 1\n", [], 0),
    (BEFORE, ["--check"], 1),
    (BEFORE, ["--check", "--ignore", "PM1"], 0),
    (OLD, ["--check"], 1),
    (f"{OLD.strip()}  # mdstorm: ignore\n", ["--check"], 0),
    (OLD, ["--check", "--unsafe"], 1),
    (INTERNAL, ["--check"], 1),
    (f"# TODO(mdstorm): ask\n{AFTER}", ["--check"], 1),
    (BROKEN, [], 3),
    (BROKEN, ["-w"], 3),
    (BEFORE, ["--check", "-w"], 2),
    (BEFORE, ["--select", "XX1"], 2),
    (BEFORE, ["--backup", "a/b"], 2),
    (BEFORE, ["--jobs", "0"], 2),
)
def test_exit_code_follows_findings_and_options(
    text: str, options: Sequence[str], code: int, tmp_path: Path
) -> None:
    write_modules(tmp_path, a=text)
    assert run(*options, tmp_path).exit_code == code


def test_unreadable_file_does_not_stop_migration_of_other_files(tmp_path: Path) -> None:
    write_modules(tmp_path, a=BROKEN, b=BEFORE, d=BEFORE)
    (tmp_path / "c.py").write_bytes(b"import petastorm\n\xff")
    (tmp_path / "d.py").chmod(0o444)
    (tmp_path / "e.ipynb").write_text('{"petastorm"')
    result = run("-w", "-q", "--no-diff", tmp_path)
    assert result.exit_code == 3
    assert result.stdout == ""
    lines = [line.removeprefix(f"{tmp_path}/") for line in result.stderr.splitlines()]
    starts = [
        "a.py: error: line 2: not Python 3.",
        "c.py: error: line 2: not valid utf-8: byte 0xff",
        "d.py: error: not written: the file is read-only",
        "e.ipynb: error: line 1: broken JSON: Expecting ':' delimiter",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert (tmp_path / "b.py").read_text() == AFTER
    assert (tmp_path / "a.py").read_text() == BROKEN


def test_findings_are_printed_with_path_line_and_column(tmp_path: Path) -> None:
    text = f'{BEFORE}make_reader(url, **options)\n{INTERNAL}NAMES = ["petastorm"]\n'
    write_modules(tmp_path, a=text)
    quiet, plain, verbose = (run("--no-diff", *o, tmp_path).stderr for o in (["-q"], [], ["-v"]))
    path = tmp_path / "a.py"
    assert quiet == ""
    assert plain.startswith(f"{path}:3:33: PM107 manual: `petastorm.unischema._fullmatch` is")
    assert "      1  place that needs manual review\n      1  note (shown with -v)\n" in plain
    assert "      1  other line that still mentions Petastorm (shown with -v)\n" in plain
    lines = verbose.splitlines()
    assert lines[0].startswith(f"{path}:1:6: PM101 exact: ")
    assert lines[1].startswith(f"{path}:2:1: PM109 note: ")
    assert f"{path}:4:11: PM001 note: " in verbose
    assert verbose.count("PM107") == 1


def test_finding_without_todo_comment_is_printed_with_remedy(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"command": "conda install petastorm"}\n')
    lines = run(tmp_path).stderr.splitlines()
    assert lines[0].endswith(
        "PM409 manual: there is no conda package of mdstorm; "
        "remove petastorm from this command and add `pip install mdstorm`"
    )
    assert lines[-1] == "next: resolve the places listed above by hand"
    write_modules(tmp_path, a=INTERNAL)
    last = run("-w", "--no-diff", tmp_path).stderr.splitlines()[-1]
    assert last.startswith("next: resolve the places listed above by hand; `grep -rn")


def test_manual_finding_is_reported_until_resolved(tmp_path: Path) -> None:
    text = f"{BEFORE}reader = make_reader(url, shuffel=True)\n"
    write_modules(tmp_path, a=text)
    for _ in range(2):
        done = run("-w", "--no-diff", tmp_path)
        assert "1  place that needs manual review" in done.stderr
    again = run("--check", tmp_path)
    assert again.exit_code == 1
    assert f"{tmp_path}/a.py:2:1: PM113 manual: open TODO: neither Petastorm" in again.stderr
    assert 'next: resolve the places that `grep -rn "TODO(mdstorm)"` lists' in again.stderr
    (tmp_path / "a.py").write_text(f"{AFTER}reader = make_reader(url)\n")
    assert run("--check", tmp_path).exit_code == 0


def test_summary_suggests_next_step(tmp_path: Path) -> None:
    write_modules(tmp_path, a=OLD)
    assert run(tmp_path).stderr.endswith("next: review `mdstorm migrate --unsafe`\n")
    write_modules(tmp_path, a=AFTER)
    assert run(tmp_path).stderr.endswith("nothing is left to do in these files\n")
    write_modules(tmp_path, a="from streaming import StreamingDataset\n")
    assert run(tmp_path).stderr.endswith("next: `mdstorm migrate --from streaming`\n")


def test_summary_tells_why_check_fails(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": AFTER, "requirements.txt": "mdstorm\nnumpy==1.16\n"})
    done = run("--check", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "next: change the place above; until then, `--check` exits with 1\n"
    )


@each("-v", "-w", "--check")
def test_folder_without_petastorm_is_reported_with_number_of_files(
    option: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"a.py": "x = 1\n", "requirements.txt": "numpy\n"})
    done = run(option, tmp_path)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no file here uses Petastorm; 2 files were read\n"


def test_uncommitted_changes_are_reported_before_files_are_written(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        user = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        subprocess.run(["git", *user, *arguments], cwd=tmp_path, check=True, capture_output=True)

    write_modules(tmp_path, a=BEFORE, b="x = 1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "x")
    warning = "1 file has uncommitted changes: commit them first to see and undo the edits\n"
    assert warning not in run("-w", tmp_path).stderr
    write_modules(tmp_path, a=BEFORE, b="x = 2\n")
    git("add", "a.py")
    git("commit", "-m", "x", "--allow-empty")
    assert warning not in run(tmp_path).stderr
    done = run("-w", tmp_path)
    assert (done.exit_code, (tmp_path / "a.py").read_text()) == (0, AFTER)
    assert done.stderr.startswith(warning)


def test_rules_are_listed_and_explained() -> None:
    listed = run("--list-rules")
    assert listed.exit_code == 0
    assert len(listed.stdout.splitlines()) == len(all_rules())
    explained = run("--explain", "pm101")
    assert explained.exit_code == 0
    assert explained.stdout.startswith("# PM101 Import from mdstorm\n")


@pytest.mark.long
def test_output_is_the_same_for_any_number_of_jobs(tmp_path: Path) -> None:
    outputs = []
    for jobs in (1, 2):
        root = tmp_path / "r"
        root.mkdir()
        for number in range(210):  # more files than a process is given at once
            text = (BEFORE, BROKEN, INTERNAL, OLD, f"petastorm = {number}\n")[number % 5]
            write_modules(root, **{f"m{number}": text})
        (root / "n.ipynb").write_text(json.dumps({"cells": [], "x": "petastorm"}))
        result = run("-j", jobs, "-v", "-w", root)
        files = {path.name: path.read_text() for path in root.iterdir()}
        outputs.append((result.exit_code, result.stdout, result.stderr, files))
        for path in root.iterdir():
            path.unlink()
        root.rmdir()
    assert outputs[0] == outputs[1]


def test_command_in_a_process_with_frozen_objects_leaves_them_frozen(tmp_path: Path) -> None:
    """Servers freeze their objects before they fork, so that memory stays shared."""
    write_modules(tmp_path, a=BEFORE)
    gc.freeze()
    run("--check", tmp_path)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.long
def test_interrupt_ends_command_between_two_files(tmp_path: Path) -> None:
    program = (
        "import signal, sys\nfrom mdstorm_migrate.cli.migrate import migrate\n"
        # A shell's background jobs ignore SIGINT, and so do their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from mdstorm_migrate.run import writing\nold = writing.write_file\n"
        "def slow(path, *rest):\n    print('begin', flush=True)\n    sys.stdin.readline()\n"
        "    old(path, *rest)\nwriting.write_file = slow\nmigrate()\n"
    )
    write_modules(tmp_path, a=BEFORE, b=BEFORE)
    process = subprocess.Popen(
        [sys.executable, "-c", program, "-w", "-q", "-j", "1", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "interrupted: every file written so far is complete\n"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]


@pytest.mark.long
def test_command_without_html_report_imports_only_small_libraries() -> None:
    program = (
        "import sys, mdstorm_migrate, mdstorm_migrate.cli.migrate\n"
        "from mdstorm_migrate.sources import all_sources\n"
        "from mdstorm_migrate.rules import all_rules\n"
        "all_sources(), all_rules()\n"
        "heavy = {'torch', 'tensorflow', 'pyspark', 'pandas', 'numpy', 'pyarrow', 'mdstorm'}\n"
        "heavy.add('jinja2')\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_summary_counts_files_that_still_import_petastorm(tmp_path: Path) -> None:
    write_modules(tmp_path, a="from petastorm.hdfs import x\n", b=BEFORE)
    assert "1  file that still imports petastorm" in run(tmp_path).stderr
    (tmp_path / "a.py").unlink()
    assert "still import" not in run(tmp_path).stderr


@each(["."], ["mypkg", "tests"])
def test_given_paths_are_treated_as_one_project_if_there_is_no_marker_file(
    named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Migrate an unpacked archive, whose tests patch a name that one of its modules imports."""
    files = {
        "mypkg/__init__.py": "",
        "mypkg/loader.py": "import petastorm\nr = petastorm.make_reader\n",
        "tests/test_loader.py": "mock.patch('mypkg.loader.petastorm.make_reader')\n",
    }
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    assert run("-w", "-j", "1", *named).exit_code == 0
    assert "import mdstorm as petastorm\n" in (tmp_path / "mypkg" / "loader.py").read_text()


@pytest.mark.long
def test_output_is_independent_of_hash_seed(tmp_path: Path) -> None:
    names = [f"LIB_{letter}" for letter in "ABCDEFGH"]
    pins = [f"ARG {name}=torch==1.{number}.0\n" for number, name in enumerate(names)]
    install = " ".join(f"${{{name}}}" for name in names)
    (tmp_path / "Dockerfile").write_text(f"{''.join(pins)}RUN pip install petastorm {install}\n")
    (tmp_path / "a.py").write_text("from petastorm.pytorch import DataLoader\n")
    command = [sys.executable, "-m", "mdstorm", "migrate", "-v", "-j", "1", str(tmp_path)]
    outputs = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stderr
        for seed in "123"
    }
    assert len(outputs) == 1
    assert b"torch" in outputs.pop()


def test_findings_with_same_cause_are_printed_as_one_line(tmp_path: Path) -> None:
    texts = {f"m{n}": f"{INTERNAL}{INTERNAL}" for n in range(3)}
    write_modules(tmp_path, **texts)
    plain, verbose = (run("--no-diff", *o, tmp_path).stderr for o in ([], ["-v"]))
    (line,) = [one for one in plain.splitlines() if "PM107" in one]
    more = ", ".join(f"{tmp_path}/m{n}.py:{at}:33" for n, at in ((0, 2), (1, 1), (1, 2)))
    assert line.startswith(f"{tmp_path}/m0.py:1:33: PM107 manual: ")
    assert line.endswith(f" (and 5 more places: {more}, …)")
    assert verbose.count("PM107 manual") == 6


def test_imports_that_need_review_for_same_reason_are_printed_as_one_line(tmp_path: Path) -> None:
    write_modules(tmp_path, a=f"{OLD}{BEFORE}from petastorm.codecs import ScalarCodec\n")
    lines = [one for one in run("--no-diff", tmp_path).stderr.splitlines() if "review:" in one]
    assert len(lines) == 2


def test_summary_mentions_remaining_notes(tmp_path: Path) -> None:
    write_modules(tmp_path, a='NAMES = ["petastorm"]\n')
    assert run(tmp_path).stderr.endswith("no edits are left; check the notes, which -v lists\n")
    assert run("-v", tmp_path).stderr.endswith("no edits are left; check the notes\n")


@each(
    "@patch('petastorm.reader.Reader')\n",  # needs review
    "@patch('petastorm.reader._private')\n",  # needs manual review
)
def test_summary_names_line_that_other_edits_wait_for(patch: str, tmp_path: Path) -> None:
    loads = "from petastorm import make_reader\n"
    test = f"import a, b\n{patch}def test(one): ...\n"
    write_files(tmp_path, {"a.py": loads, "b.py": loads, "test_it.py": test})
    line = re.compile(r"2 edits wait for \S+/test_it.py:2:\d; resolve that first, and `-w` does")
    assert line.search(invoke(command, tmp_path).stderr)
    assert line.search(invoke(command, "-v", tmp_path).stderr)
    assert "edits wait" not in invoke(command, "--unsafe", tmp_path).stderr
    (tmp_path / "test_it.py").write_text("import a, b\n")
    assert "edits wait" not in invoke(command, "-w", tmp_path).stderr
    assert (tmp_path / "a.py").read_text() == loads.replace("petastorm", "mdstorm")


def test_summary_names_no_line_if_edits_wait_for_file_that_stays(tmp_path: Path) -> None:
    write_modules(tmp_path, a=f"import b\n{BEFORE}", b=f"# mdstorm: ignore-file\n{BEFORE}")
    result = run(tmp_path)
    assert "1  edit to review, which --unsafe applies" in result.stderr
    assert "wait" not in result.stderr
