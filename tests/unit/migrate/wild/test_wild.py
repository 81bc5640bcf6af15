"""Realistic programs, in which the tool edits what it should, and reports the rest.

What each program computes was recorded with Petastorm (`record.py`, `outcomes.json`); what the tool
should do to each file is in `expected.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.migrating import invoke

from mdstorm_migrate.cli.migrate import migrate as command

from . import record
from .expected import EXPECTED
from .judge import FILES, ROOTS, WILD, expected_of, faults, migrated

OUTCOMES: dict[str, Any] = {
    prefix + name: outcome
    for prefix, root in ROOTS.items()
    for name, outcome in json.loads((root / "outcomes.json").read_text("utf-8")).items()
}
PROJECTS = sorted(path.name for path in (WILD / "projects").iterdir())
#: Programs that run at each commit; running the others takes a long time.
REPRESENTATIVE = [
    *("etl_append_partitions", "generator_context", "getattr_strings"),
    *("lightning_like_datamodule", "mocked_unit_tests", "subclass_loader"),
]


def test_expectations_name_only_existing_files() -> None:
    assert EXPECTED.keys() <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_migrated_file_equals_expectation(name: str) -> None:
    wrong, missed = faults(name)
    assert (wrong, missed) == ((), ())


#: Projects with a file that still uses Petastorm, so other files are not migrated either.
_WAITING = {"tests_and_conftest"}


@pytest.mark.parametrize("name", sorted({*PROJECTS} - _WAITING))
def test_command_and_function_produce_same_files(name: str, tmp_path: Path) -> None:
    project = tmp_path / name
    shutil.copytree(WILD / "projects" / name, project, ignore=shutil.ignore_patterns("__pycache__"))
    unsafe = any(expected_of(one).unsafe for one in FILES if one.startswith(f"projects/{name}/"))
    options = ["--unsafe"] if unsafe else []
    assert invoke(command, "-w", "-q", *options, project).exit_code == 0
    for path in project.rglob("*.*"):
        if path.suffix == ".py":  # requirements depend on a project's code
            key = str(Path("projects", path.relative_to(tmp_path)))
            assert path.read_bytes() == migrated(key).after, path


def test_test_module_is_unchanged_while_its_conftest_stays_on_petastorm(tmp_path: Path) -> None:
    project = tmp_path / "tests_and_conftest"
    shutil.copytree(WILD / "projects" / project.name, project)
    assert invoke(command, "-w", "-q", project).exit_code == 0
    before = (WILD / "projects" / project.name / "tests" / "test_loader.py").read_bytes()
    assert (project / "tests" / "test_loader.py").read_bytes() == before
    assert "petastorm==0.12.1" in (project / "tox.ini").read_text()


#: Programs that need more manual work; without Petastorm, they raise errors of their own.
_LEFT_TO_PEOPLE = {"config_yaml_factory"}


#: Programs that use names that NumPy 2 removed, which the command leaves to ruff's NumPy rules.
_OLD_NUMPY = {"old_python_idioms"}


def files_of(name: str) -> list[str]:
    """Return the files of a program, or of a project."""
    prefix, _, program = name.rpartition("/")
    folder = f"{prefix}/" if prefix else ""
    starts = (f"{folder}programs/{program}/", f"{folder}projects/{program}/")
    return [one for one in FILES if one.startswith(starts)] or [f"{folder}programs/{program}.py"]


def expected_outcome(name: str) -> dict[str, Any] | None:
    """Return what a migrated program should compute, or None if it still needs manual work."""
    paths = files_of(name)
    if name in _LEFT_TO_PEOPLE:
        return None
    if name in _OLD_NUMPY and np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        return {"raised": "was removed in the NumPy 2.0 release"}
    recorded = dict(OUTCOMES[name])
    expected = expected_of(paths[0])
    if expected.why:
        if expected.computes == "NullValueError":
            return {"raised": "NullValueError"}
        if isinstance(expected.computes, dict):
            recorded["returned"] = recorded["returned"] | expected.computes
        else:
            recorded["returned"] = expected.computes
    return recorded


def write_migrated(folder: Path) -> None:
    for name in FILES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(migrated(name).after)


@pytest.mark.parametrize("name", REPRESENTATIVE)
@pytest.mark.filterwarnings("ignore::UserWarning")  # mdstorm warns as Petastorm does
def test_migrated_program_computes_result_of_petastorm(
    name: str, classic_spark: Any, set_conf: Any, tmp_path: Path
) -> None:
    set_conf("petastorm.spark.converter.parentCacheDirUrl", None)
    path = tmp_path / f"{name}.py"
    path.write_bytes(migrated(f"programs/{name}.py").after)
    assert {"returned": record.outcome(classic_spark, name, path)} == OUTCOMES[name]
    assert "petastorm" not in sys.modules


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """A function that runs the migrated programs of a folder in a separate process."""
    folder = tmp_path_factory.mktemp("wild")
    write_migrated(folder)

    @cache
    def run(part: str) -> dict[str, Any]:
        outcomes = folder / "outcomes.json"
        command = [sys.executable, WILD / "record.py", folder / part, outcomes]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(outcomes.read_text("utf-8"))  # type: ignore[no-any-return]

    return run


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OUTCOMES))
def test_each_migrated_program_computes_result_of_petastorm(
    name: str, computed: Callable[[str], dict[str, Any]]
) -> None:
    expected = expected_outcome(name)
    if expected is None:
        pytest.xfail("work is left here")
    path = files_of(name)[0]
    part = path[: path.index("/", len(name.rpartition("/")[0]) + 1)]
    found = computed(part)[name.rpartition("/")[2]]
    if "raised" in expected:
        assert expected["raised"] in found["raised"]
    elif any(expected_of(one).keeps for one in files_of(name)):
        assert "No module named 'petastorm'" in found["raised"]
    else:
        assert found == expected
