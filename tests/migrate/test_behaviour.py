"""The promise that matters most: a migrated program computes what the program computed.

The programs are as people wrote them for Petastorm, one for each way in which it is used. Each runs
as it is, where ``import petastorm`` finds mdstorm, and migrated, where nothing of that name is
found.
"""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.installed import installed_as_petastorm

from mdstorm_migrate.api import migrate

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
#: They take long, and others of the gate use the same parts of Petastorm.
LONG = {
    *("appended_dataset", "converter_fixed_steps", "converter_two_managers", "parquet_to_keras"),
    *("unusual_shapes", "windows_of_time"),
}


def run(text: str, path: Path, spark: Any, directory: Path) -> Any:
    """Return what the `main` of a program computes, as JSON has it."""
    program = ModuleType(path.stem)
    directory.mkdir()
    # Pickles of its classes, and closures for Spark's workers, look for the module.
    sys.modules[path.stem] = program
    try:
        exec(compile(text, path, "exec"), program.__dict__)
        return json.loads(json.dumps(program.main(spark, str(directory))))
    finally:
        del sys.modules[path.stem]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in LONG))
        for path in PROGRAMS
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what Petastorm warned of, mdstorm does too
def test_a_migrated_program_computes_the_same(
    path: Path, classic_spark: Any, set_conf: Any, tmp_path: Path
) -> None:
    set_conf("petastorm.spark.converter.parentCacheDirUrl", None)
    result = migrate(path.read_text(), path=path)
    assert result.changed
    assert result.errors == ()
    with installed_as_petastorm():
        expected = run(result.source, path, classic_spark, tmp_path / "before")
    assert "petastorm" not in sys.modules
    computed = run(result.output, path, classic_spark, tmp_path / "after")
    assert computed == expected
