"""TODO comments are inserted once per reason, and reported until they are removed."""

import json
from itertools import pairwise
from pathlib import Path

from tests.kit.migrating import each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import Finding

WRONG = "from petastorm import make_reader\nreader = make_reader(url, shuffel=True)\n"
MARK = "# TODO(mdstorm):"


def manual(text: str, path: str | None = None, **options: object) -> list[Finding]:
    found = migrate(text, path=path, **options).findings  # type: ignore[arg-type]
    return [one for one in found if one.cls == "manual"]


def test_todo_comment_is_reported_after_its_code_was_rewritten() -> None:
    first = migrate(WRONG)
    (found,) = first.findings
    assert (found.rule, found.is_marked, found.is_open_todo) == ("PM113", True, False)
    second = migrate(first.output)
    assert not second.changed
    (again,) = second.findings
    assert (again.rule, again.cls, again.is_open_todo) == ("PM113", "manual", True)
    assert again.message == f"open TODO: {found.remedy}"
    assert again.line == 2


def test_todo_comment_and_its_finding_are_reported_once() -> None:
    text = "from petastorm.reader import Ventilator\n"
    output = migrate(text).output
    for one in manual(text), manual(output), manual(output, todo=False):
        assert [(found.rule, found.is_open_todo) for found in one] == [("PM107", False)]
    assert migrate(output).output == output


def test_reworded_todo_comment_replaces_finding() -> None:
    text = f"{MARK} PM107: Bob knows what to do here\nfrom petastorm.reader import Ventilator\n"
    result = migrate(text)
    assert not result.changed
    assert [found.is_marked for found in result.findings] == [True]
    other = text.replace("PM107: ", "")
    assert [(one.rule, one.is_open_todo) for one in manual(other)] == [
        ("PM000", True),
        ("PM107", False),
    ]


def test_todo_comment_with_same_text_is_preferred_to_one_with_same_rule_code() -> None:
    command = 'run("pip install petastorm==0.9\\n"'
    text = f'{command})\n{command}, "git+https://host/petastorm.git")\n'
    output = migrate(text).output
    assert output.count(MARK) == 2
    assert migrate(output).output == output


def test_one_todo_comment_covers_places_with_same_remedy() -> None:
    result = migrate(f"{WRONG}def f():\n    return make_reader(url, shuffel=True)\n")
    assert result.output.count(MARK) == 1
    assert [one.is_marked for one in result.findings] == [True, False]
    again = migrate(result.output)
    assert not again.changed
    assert len(again.findings) == 1


HOLDS = (
    "from petastorm.hdfs import namenode\nfrom petastorm.reader import make_reader, _x\n"
    "r = make_reader(url, shuffle_options=1)\nr._workers_pool\n"
)


@each(False, True)
def test_each_cause_that_blocks_file_migration_gets_todo_comment(unsafe: bool) -> None:
    result = migrate(HOLDS, unsafe=unsafe)
    held = [one for one in result.findings if one.holds]
    assert [one.rule for one in held] == ["PM107", "PM107", "PM106", "PM117"]
    lines = result.output.splitlines()
    marked = [after for line, after in pairwise(lines) if MARK in line]
    causes = ["namenode", "_x", "make_reader(url", "_workers_pool"]
    assert [cause for line, cause in zip(marked, causes, strict=True) if cause in line] == causes
    assert migrate(result.output, unsafe=unsafe).output == result.output


def test_todo_comment_of_resolved_cause_is_open_until_removed() -> None:
    first = migrate(HOLDS).output
    settled = first.replace("from petastorm.hdfs import namenode\n", "import namenode\n")
    result = migrate(settled)
    assert result.output == settled
    assert [one.line for one in result.findings if one.is_open_todo] == [1]


@each(
    ("requirements.txt", f"numpy\n{MARK} PM401: see what the fork changes\nmdstorm\n"),
    ("Dockerfile", f"FROM x\n{MARK} pin this\nRUN pip install mdstorm\n"),
    ("databricks.yml", f"a:\n  {MARK} PM409: name the package\n  - b\n"),
    ("pyproject.toml", f"[project]\n{MARK} PM402: see the fork\nname = 'x'\n"),
    ("environment.yml", f"dependencies:\n{MARK} PM404: take it out\n- pip\n"),
    ("a.py", f"# Databricks notebook source\n# MAGIC %sh\n# MAGIC {MARK} ask\n# MAGIC ls\n"),
)
def test_todo_comments_are_reported_in_each_kind_of_file(path: str, text: str) -> None:
    (found,) = manual(text, path)
    assert found.is_open_todo
    assert found.message.startswith("open TODO: ")
    assert text[found.start : found.stop].startswith(MARK)
    assert not migrate(text, path=path).changed


def test_todo_comment_without_text_is_reported() -> None:
    messages = [found.message for found in manual(f"{MARK} PM107: mind\n{MARK}\n# TODO(mdstorm)\n")]
    assert messages == ["open TODO: mind", "open TODO", "open TODO"]


def test_todo_comments_in_notebooks_are_reported_by_cell() -> None:
    def notebook(*sources: str) -> str:
        cells = [{"cell_type": "code", "source": source} for source in sources]
        return json.dumps({"cells": cells, "metadata": {}})

    result = migrate(notebook("x = 1", WRONG), path="a.ipynb")
    (found,) = manual(result.output, "a.ipynb")
    assert (found.cell, found.line, found.is_open_todo) == (2, 2, True)


@each(
    ("a.py", f'x = "{MARK} PM107: in a string"\n'),
    ("a.md", f"```\n{MARK} PM107: shown\n```\n"),
    ("a.json", f'{{"text": "{MARK} PM107: quoted"}}\n'),
    ("ci.yml", 'run: grep -rn "TODO(mdstorm)"\n'),
    ("b.py", f"{MARK} PM107: mind\n# mdstorm: ignore-file\n"),
)
def test_text_that_resembles_todo_comment_is_not_reported(path: str, text: str) -> None:
    assert manual(text, path) == []


def test_second_unsafe_run_adds_no_comment_for_place_that_shared_one() -> None:
    text = (
        "from petastorm.reader import ArrowReaderWorker, Reader\nclass R(Reader):\n"
        "    def _filter_row_groups(self): ...\ndef f(r): return r._workers_pool\n"
    )
    first = migrate(text, unsafe=True).output
    assert first.count("PM117") == 1
    assert migrate(first, unsafe=True).output == first


def test_todo_comments_for_unselected_rules_are_not_reported(tmp_path: Path) -> None:
    text = f"{MARK} PM107: mind\nx = 1\n"
    assert manual(text, ignore=["PM107"]) == []
    assert manual(text, select=["PM101"]) == []
    assert len(manual(text, select=["PM1"])) == 1
