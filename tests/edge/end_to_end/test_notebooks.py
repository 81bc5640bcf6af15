"""The example notebooks run, are up to date in all formats, and check their requirements.

Notebooks that need trainers or tuners are run by `tests.slow.trainers.test_notebooks`.
"""

import ast
import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kit.notebooks import DIRECTORY, EXAMPLES, NOTEBOOKS, RUN_WITH_TRAINERS, check_notebook

from mdstorm_migrate.cli.migrate import migrate

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[3]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_notebooks.py"))
NAMES = [str(path.relative_to(NOTEBOOKS).with_suffix("")) for path in NOTEBOOKS.rglob("*.ipynb")]

#: Notebooks that the tests in this module run.
RUN = [
    *("05_parquet_and_delta", "06_mosaicml", "07_unity_catalog"),
    *("08_serverless_gpu", "09_migration", "14_mislabelled_images"),
]
#: Code to run before a notebook. It simulates a serverless session, which rejects most settings.
FIRST = {
    "08_serverless_gpu": f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.kit.refusing import refusing
session = refusing(connect=False)
session.__enter__()
"""
}
#: Notebooks that read a table of the workspace in `conftest.py`.
WITH_WORKSPACE = ("07_unity_catalog", "08_serverless_gpu")


def code_of(name: str) -> list[str]:
    """Return the code cells in a notebook."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def imported_by(code: str) -> Iterator[str]:
    """Yield the top-level names of imported modules."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_notebook_prints_its_committed_output(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = request.getfixturevalue("workspace") if name in WITH_WORKSPACE else {}
    check_notebook(name, tmp_path, first=FIRST.get(name, ""), environment=environment)


def test_every_notebook_is_run_by_a_test() -> None:
    assert sorted(NAMES) == sorted({*RUN, *RUN_WITH_TRAINERS})


def test_committed_notebooks_are_up_to_date_in_all_formats() -> None:
    made = SCRIPT["made_files"]()
    old = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    assert not old, "run scripts/make_notebooks.py"
    assert {*NOTEBOOKS.rglob("*.ipynb")} <= made.keys()


def test_pages_show_the_notebook_pictures() -> None:
    copies = {path: path.read_bytes() for path in SCRIPT["IMAGES"].glob("*.png")}
    assert copies == SCRIPT["made_pictures"](), "run scripts/make_notebooks.py"
    assert {path.name for path in copies} == SCRIPT["SHOWN"].keys()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("before/")])
def test_notebooks_contain_only_small_pictures(name: str) -> None:
    sizes = [len(picture) for picture in SCRIPT["pictures_of"](name)]
    assert sizes
    assert max(sizes) < 25_000


@pytest.mark.parametrize("form", [NOTEBOOKS, SCRIPT["SOURCES"]], ids=lambda form: form.name)
def test_migrating_petastorm_notebooks_yields_mdstorm_notebooks(form: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(form / "before", tmp_path / "copy")
    assert CliRunner().invoke(migrate, ["--write", str(copy)]).exit_code == 0
    titled = {path.name: path.read_text("utf-8") for path in copy.iterdir()}
    written = {name: text.replace(SCRIPT["FOR_PETASTORM"], "") for name, text in titled.items()}
    assert len(written) == 3
    assert all(titled[name] != text for name, text in written.items())
    after = {name: (form / name).read_text("utf-8") for name in written}
    if form == NOTEBOOKS:
        after = {name: SCRIPT["with_outputs"](text, None) for name, text in after.items()}
    assert written == after


@pytest.mark.parametrize("name", NAMES)
def test_each_notebook_sets_its_directory_on_one_line(name: str) -> None:
    code = "\n".join(code_of(name))
    assert len(re.findall(r'^[A-Z]+ = "(?:file|dbfs):', code, re.M)) == 1
    assert len(DIRECTORY.findall(code)) == ("VOLUME" not in code)


@pytest.mark.parametrize("name", NAMES)
def test_cell_after_installation_imports_all_requirements(name: str) -> None:
    _, check, *cells = code_of(name)
    ours = {"mdstorm", "mdstorm_backend", "petastorm", "train_digits"}
    with_others = {"numpy", "pyarrow", "keras", "joblib"}
    elsewhere = {*sys.stdlib_module_names} | ours | with_others
    assert {*imported_by("\n".join(cells))} - elsewhere <= {*imported_by(check)}


def test_readme_lists_every_notebook() -> None:
    listed = re.findall(r"\(notebooks/(.*?)\.ipynb\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(NAMES)
