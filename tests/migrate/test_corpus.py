"""Files of every kind that people have: what they become, to the byte.

`corpus/before` and `corpus/after` have the same names. What a test must run with Spark is among the
programs of `test_behaviour`, but for the two notebooks, whose cells run here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.installed import installed_as_petastorm

from mdstorm_migrate.run.outcome import Outcome, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources import find_source

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
def test_what_a_run_leaves_to_do_the_next_one_names_too(folder: str, unsafe: bool) -> None:
    settings = Settings(unsafe)
    for path in sorted((Path(__file__).parent / folder).rglob("*.*")):
        source = find_source(path, path.read_bytes()) if path.is_file() else None
        if source is not None:
            first = migrate_alone(path.read_bytes(), path, source, settings)
            second = migrate_alone(first.after, path, source, settings)
            assert second.after == first.after, path
            assert manual(second) == manual(first), path


@pytest.mark.parametrize("name", FILES, ids=str)
def test_a_file_becomes_what_it_should(name: Path) -> None:
    path = BEFORE / name
    after = (CORPUS / "after" / name).read_bytes()
    assert migrated(path, path.read_bytes()) == after
    assert migrated(path, after) == after


def code_of(path: Path, data: bytes) -> str:
    """Return the code of the cells in Python, without magics."""
    source = find_source(path, data)
    assert source is not None
    (python,) = (one for one in source.read(data, path).documents if one.kind == "python")
    return python.code


def run(code: str, spark: Any, directory: Path) -> Any:
    directory.mkdir()
    names = {"spark": spark, "directory": str(directory)}
    exec(code, names)
    return names["result"]


@pytest.mark.parametrize("name", ["notebook.ipynb", "databricks.py"])
def test_a_migrated_notebook_computes_the_same(
    name: str, classic_spark: Any, set_conf: Any, tmp_path: Path
) -> None:
    set_conf("petastorm.spark.converter.parentCacheDirUrl", None)
    path = BEFORE / name
    before = path.read_bytes()
    with installed_as_petastorm():
        expected = run(code_of(path, before), classic_spark, tmp_path / "before")
    assert "petastorm" not in sys.modules
    after = code_of(path, migrated(path, before))
    assert run(after, classic_spark, tmp_path / "after") == expected
    assert len(expected) > 10
