"""The example notebooks: current in all forms, run from top to bottom, and clear on what they lack.

Those that need trainers or tuners are run by `tests.trainers.test_notebooks`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.notebooks import DIRECTORY, EXAMPLES, NOTEBOOKS, run_notebook
from tests.servers.databricks import TOKEN, DatabricksServer
from tests.trainers.test_notebooks import PRINTED as PRINTED_WITH_TRAINERS

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_notebooks.py"))
NAMES = [str(path.relative_to(NOTEBOOKS).with_suffix("")) for path in NOTEBOOKS.rglob("*.ipynb")]

#: What each notebook prints, among others. None of it depends on the machine.
PRINTED = {
    "05_parquet_and_delta": [
        "100 rows, 300 to 399",
        "stopped and resumed: 1000 rows, 1000 of them different",
        "the newest version: 900 rows; the first: 800",
        "[256, 256, 256, 32]",
        "holds the same 900 rows",
    ],
    "06_mosaicml": [
        "epoch 0: 200 rows, 200 of them different",
        "epoch 1: 200 rows, 200 of them different",
        "tokens of a batch: torch.Size([50, 32])",
        "100 rows, then 100: 200 different ones",
        "160 rows, 40 of them about storms",
        "images (20, 8, 8), labels (20,)",
    ],
    "07_unity_catalog": [
        "CredentialsError: ",
        "1000 rows in dbfs:/Volumes/main/default/examples",
        "the model has learned: True",
        "DatasetNotFoundError: ",
    ],
    "08_serverless_gpu": [
        "4000 rows in a pickle of less than 4 KB: True",
        "20000 rows in five epochs over all processes",
        "the model has learned: True",
    ],
    "09_migration": [
        "-from petastorm.pytorch import DataLoader",
        "+from mdstorm.pytorch import DataLoader",
        "pandas\nmdstorm[torch,images]\npyspark==3.5.3\nscikit-learn\n",
        "recognised 3",  # hundred and some of 357 digits
        "nothing is left: True",
        "the same as before: True",
        "all rows are the same: True",
    ],
}
#: What is run before a notebook: sessions of serverless compute refuse most of what others allow.
FIRST = {
    "08_serverless_gpu": f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.refusing import refusing
session = refusing(connect=False)
session.__enter__()
"""
}
#: What is run in the gate.
CHEAP = ("05_parquet_and_delta",)


def code_of(name: str) -> list[str]:
    """Return the code cells of a notebook."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def imported_by(code: str) -> Iterator[str]:
    """Yield the top-level names of what is imported."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def modules_of(check: str) -> dict[str, str]:
    """Return what a notebook checks the presence of."""
    first = next(node for node in ast.parse(check).body if isinstance(node, ast.Assign))
    found: dict[str, str] = ast.literal_eval(first.value)
    return found


def marked(name: str) -> Any:
    return name if name in CHEAP else pytest.param(name, marks=pytest.mark.long)


@pytest.mark.parametrize("name", [marked(name) for name in PRINTED])
def test_a_notebook_runs_and_prints(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = request.getfixturevalue("workspace") if "catalog" in name else {}
    lines = run_notebook(name, tmp_path, first=FIRST.get(name, ""), environment=environment)
    printed = "\n".join(lines)
    assert [line for line in PRINTED[name] if line not in printed] == [], printed


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to a workspace with a volume."""
    server = DatabricksServer()
    yield {"DATABRICKS_HOST": server.url, "DATABRICKS_TOKEN": TOKEN, "HOME": str(tmp_path)}
    server.close()


def test_every_notebook_is_run() -> None:
    assert sorted(NAMES) == sorted({*PRINTED, *PRINTED_WITH_TRAINERS})


def test_all_forms_are_current() -> None:
    made = SCRIPT["made_files"]()
    old = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    assert not old, "run scripts/make_notebooks.py"
    assert {*NOTEBOOKS.rglob("*.ipynb")} <= made.keys()


@pytest.mark.parametrize("form", [NOTEBOOKS, SCRIPT["SOURCES"]], ids=lambda form: form.name)
def test_the_command_makes_the_one_after_of_the_one_before(form: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(form / "before", tmp_path / "copy")
    command = [sys.executable, "-m", "mdstorm", "migrate", "--write", str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    written = {path.name: path.read_text("utf-8") for path in copy.iterdir()}
    assert len(written) == 2
    assert written == {name: (form / name).read_text("utf-8") for name in written}


@pytest.mark.parametrize("name", NAMES)
def test_the_directory_is_the_only_line_to_change(name: str) -> None:
    code = "\n".join(code_of(name))
    assert len(re.findall(r'^[A-Z]+ = "(?:file|dbfs):', code, re.M)) == 1
    assert len(DIRECTORY.findall(code)) == ("VOLUME" not in code)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cell_checks_all_that_is_imported(name: str) -> None:
    _, check, *cells = code_of(name)
    ours = {"mdstorm", "mdstorm_backend", "petastorm", "train_digits"}
    of_databricks, with_others = {"serverless_gpu"}, {"numpy", "pyarrow", "keras", "joblib"}
    elsewhere = {*sys.stdlib_module_names} | ours | of_databricks | with_others
    assert {*imported_by("\n".join(cells))} - elsewhere <= modules_of(check).keys()
    template = re.sub(r"MODULES = \{.*?\}", "", check, flags=re.S)
    assert template == re.sub(r"MODULES = \{.*?\}", "", code_of(NAMES[0])[1], flags=re.S)


CHECK = code_of("06_mosaicml")[1]


def test_the_first_cell_says_nothing_where_all_is_there() -> None:
    exec(CHECK, {})


def test_the_first_cell_names_all_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 0))
    monkeypatch.setattr(os, "sysconf", lambda name: 1024)
    lacking = CHECK.replace('"sklearn"', '"not_there"')
    with pytest.raises(RuntimeError) as caught:
        exec(lacking, {})
    lines = str(caught.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["the", "Spark", "less", "this"]
    assert "run %pip install scikit-learn" in lines[0]
    assert "Java: install version 17 or newer" in lines[1]


def test_java_is_looked_for_where_spark_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match="set JAVA_HOME"):
        exec(CHECK, {})
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")  # has Java, or does not need it
    exec(CHECK, {})


def test_the_readme_lists_every_notebook() -> None:
    listed = re.findall(r"\(notebooks/(.*?)\.ipynb\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(NAMES)
