"""Commands and strings that ask pip for the distribution of Petastorm."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop

from mdstorm_migrate.api import migrate

_HEAD = "# Databricks notebook source\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("n.py", f"{_HEAD}# MAGIC %sh\n# MAGIC pip list | grep petastorm\n"),
        ("n.py", f"{_HEAD}# MAGIC %sh ls; pip freeze | grep -i petastorm\n"),
        ("n.py", f"{_HEAD}# MAGIC %pip show petastorm\n"),
        ("n.py", "# %%\n# !pip show petastorm\n"),
        ("n.py", '# %%\n# !pip freeze | grep -i -E "petastorm|pyarrow|torch"\n'),
        ("a.py", "os.system('pip freeze | grep -i petastorm')\n"),
        ("a.py", "subprocess.run([sys.executable, '-m', 'pip', 'show', 'petastorm'])\n"),
    ],
)
def test_what_only_shows_the_distribution_is_a_note(path: str, text: str) -> None:
    (found,) = check_noop(text, path).findings
    assert (found.rule != "PM001", found.cls) == (True, "note")
    assert "shows whether Petastorm is installed" in found.message


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("n.py", f"{_HEAD}# MAGIC %sh pip show petastorm && ls\n"),
        ("pyproject.toml", '[tool.pdm.scripts]\nsh = {shell = "pip show petastorm | head -2"}\n'),
        ("n.py", '# %%\n# !pip freeze | grep -E "petastorm|pyarrow" && ls\n'),
        ("tox.ini", "[testenv]\ncommands = pip show petastorm\n"),
        ("a.py", "x = subprocess.check_output('pip show petastorm', shell=True)\n"),
        ("a.py", "subprocess.run(['pip', 'show', 'petastorm'], check=True)\n"),
        ("a.py", "if os.system('pip show -q petastorm'):\n    pass\n"),
    ],
)
def test_what_depends_on_the_distribution_is_for_people(path: str, text: str) -> None:
    (found,) = check_noop(text, path).findings
    assert (found.cls, "asks for the distribution" in found.message) == ("manual", True)


@pytest.mark.parametrize(
    "line", ["print('pip show petastorm')", "run(['helm', 'show', 'petastorm'])"]
)
def test_texts_and_other_commands_ask_nothing(line: str) -> None:
    assert {one.rule for one in migrate(f"{line}\n", path="a.py").findings} == {"PM001"}
