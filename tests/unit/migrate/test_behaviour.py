"""A migrated program computes the same results as the original.

`programs` contains programs written for Petastorm, one for each way of using it. Each runs twice:
unchanged, with ``import petastorm`` importing mdstorm, and migrated, when `petastorm` cannot be
imported. `corpus` contains files of every kind, and the exact bytes expected after the migration;
the cells of two of its notebooks are run.
"""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.installed import installed_as_petastorm

from mdstorm_migrate.api import migrate
from mdstorm_migrate.run.outcome import Outcome, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources import find_source

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
#: Slow programs that only the long tests run, because others use the same parts of Petastorm.
LONG = {
    *("appended_dataset", "closure_on_workers", "converter_fixed_steps", "converter_two_managers"),
    *("parquet_to_keras", "unusual_shapes", "windows_of_time"),
}


def run(text: str, path: Path, spark: Any, directory: Path) -> Any:
    """Return the result of a program's `main`, or the `result` of a notebook, with JSON types."""
    program = ModuleType(path.stem)
    names = vars(program)
    directory.mkdir()
    # Pickling a class or closure of the program looks up its module.
    sys.modules[path.stem] = program
    try:
        given = {"spark": spark, "directory": str(directory)}
        names |= given
        exec(compile(text, path, "exec"), names)
        computed = names["main"](**given) if "main" in names else names["result"]
        return json.loads(json.dumps(computed))
    finally:
        del sys.modules[path.stem]


def check_same(before: str, after: str, path: Path, spark: Any, folder: Path) -> Any:
    """Assert that migration does not change a program's result, and return the result."""
    with installed_as_petastorm():
        expected = run(before, path, spark, folder / "before")
    assert "petastorm" not in sys.modules
    assert run(after, path, spark, folder / "after") == expected
    return expected


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in LONG))
        for path in PROGRAMS
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # mdstorm warns where Petastorm does
def test_migrated_program_computes_same_result(
    path: Path, classic_spark: Any, set_conf: Any, tmp_path: Path
) -> None:
    set_conf("petastorm.spark.converter.parentCacheDirUrl", None)
    result = migrate(path.read_text(), path=path)
    assert result.changed
    assert result.errors == ()
    check_same(result.source, result.output, path, classic_spark, tmp_path)


CORPUS = Path(__file__).parent / "corpus"
BEFORE = CORPUS / "before"
FILES = sorted(path.relative_to(BEFORE) for path in BEFORE.rglob("*.*") if path.is_file())


def migrated(path: Path, data: bytes) -> bytes:
    source = find_source(path, data)
    assert source is not None
    outcome = migrate_alone(data, path, source, Settings())
    assert not outcome.problems
    return outcome.after


def manual(outcome: Outcome) -> list[str]:
    return sorted(found.rule for found in outcome.findings if found.cls == "manual")


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("folder", ["corpus/before", "programs"])
def test_second_migration_reports_same_remaining_findings(folder: str, unsafe: bool) -> None:
    settings = Settings(unsafe)
    for path in sorted((Path(__file__).parent / folder).rglob("*.*")):
        source = find_source(path, path.read_bytes()) if path.is_file() else None
        if source is not None:
            first = migrate_alone(path.read_bytes(), path, source, settings)
            second = migrate_alone(first.after, path, source, settings)
            assert second.after == first.after, path
            assert manual(second) == manual(first), path


@pytest.mark.parametrize("name", FILES, ids=str)
def test_migrated_file_equals_expected_file(name: Path) -> None:
    path = BEFORE / name
    after = (CORPUS / "after" / name).read_bytes()
    assert migrated(path, path.read_bytes()) == after
    assert migrated(path, after) == after


def code_of(path: Path, data: bytes) -> str:
    """Return the code of a notebook's Python cells, without magics."""
    source = find_source(path, data)
    assert source is not None
    (python,) = (one for one in source.read(data, path).documents if one.kind == "python")
    return python.code


@pytest.mark.parametrize("name", ["notebook.ipynb", "databricks.py"])
def test_migrated_notebook_computes_same_result(
    name: str, classic_spark: Any, set_conf: Any, tmp_path: Path
) -> None:
    set_conf("petastorm.spark.converter.parentCacheDirUrl", None)
    path = BEFORE / name
    before = path.read_bytes()
    after = code_of(path, migrated(path, before))
    assert len(check_same(code_of(path, before), after, path, classic_spark, tmp_path)) > 10
