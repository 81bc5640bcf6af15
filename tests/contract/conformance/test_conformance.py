"""Programs get the same results under the real Petastorm and under mdstorm.

Petastorm's results are in recorded.json, so these tests do not need Petastorm. differences.py lists
the results that differ deliberately, with the reasons.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.conftest import IS_CONNECT
from tests.contract.conformance.describing import agree
from tests.contract.conformance.differences import DIFFERENCES
from tests.contract.conformance.place import DATA_OF_MDSTORM, Place
from tests.contract.conformance.running import Program, load_programs, needs_spark, run
from tests.kit.installed import installed_as_petastorm
from tests.slow.fuzz.many_cases import check_cases

from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index

PROGRAMS = Path(__file__).with_name("programs")
RESULTS: dict[str, Any] = json.loads(PROGRAMS.with_name("recorded.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Program]]:
    with installed_as_petastorm():
        yield load_programs(PROGRAMS)


@pytest.fixture
def spark_with_cache(spark: Any, tmp_path: Path, set_conf: Callable[..., None]) -> Any:
    """The tests' Spark session, with a directory for converted DataFrames."""
    set_conf("petastorm.spark.converter.parentCacheDirUrl", f"file://{tmp_path / 'cache'}")
    return spark


#: Programs that write with Spark and read the result, and that also run in the short tests.
_OF_THE_GATE = {
    "all_files",
    "written_rows_are_read",
    "spark_reads_the_files",
    "two_blocks_append",
    "selectors_choose_files",
}
_USES_SPARK_CONTEXT = (
    "writing.rows_of_a_dataset_in_spark",
    "writing_parquet.selectors_choose_files",
)
_WRITING = ("file_urls", "whole_programs", "writing", "writing_parquet")


def _marks(name: str) -> list[pytest.MarkDecorator]:
    module, _, program = name.partition(".")
    is_long = module in _WRITING and program not in _OF_THE_GATE
    uses_spark = module in (*_WRITING, "converter") or program.startswith("a_copy_of_a_dataset")
    if not uses_spark:
        return []
    # Outside the long tests, one kind of session is enough.
    return [pytest.mark.spark_session, *[pytest.mark.long] * (is_long or IS_CONNECT)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in RESULTS])
def test_program_result_matches_petastorm_recording(
    name: str, programs: dict[str, Program], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program = programs[name]
    spark = None
    if needs_spark(program):
        assert request.node.get_closest_marker("spark_session"), "is not run on Spark Connect"
        if IS_CONNECT and name in _USES_SPARK_CONTEXT:
            pytest.skip("Spark Connect has no SparkContext")
        spark = request.getfixturevalue("spark_with_cache")
    result = run(program, Place(tmp_path), spark)
    if name in DIFFERENCES:
        assert result == DIFFERENCES[name].mdstorm
        assert not agree(RESULTS[name], result), "no longer different: remove it from the table"
    else:
        assert agree(RESULTS[name], result), f"Petastorm: {RESULTS[name]}\nmdstorm:   {result}"


@pytest.mark.parametrize("name", ["codecs", "series", "places", "cities"])
@pytest.mark.usefixtures("programs")
def test_rewritten_metadata_equals_metadata_read_by_petastorm(name: str, tmp_path: Path) -> None:
    from tests.contract.conformance import make_data

    schemas = {"codecs": make_data.CODECS, "series": make_data.SERIES}
    source, target = DATA_OF_MDSTORM / name, tmp_path / "data"
    shutil.copytree(source, target)
    (target / "_common_metadata").unlink()
    with materialize_dataset(None, target.as_uri(), schemas.get(name, make_data.PLACES)):
        pass
    if name == "places":
        build_rowgroup_index(target.as_uri(), None, make_data.indexers_of_places())
    before, after = (pq.read_metadata(d / "_common_metadata") for d in (source, target))
    assert after.schema.equals(before.schema)
    arrows_own = {b"ARROW:schema": b""}  # depends on the pyarrow version
    assert {**after.metadata, **arrows_own} == {**before.metadata, **arrows_own}


def test_each_program_has_a_recorded_result(programs: dict[str, Program]) -> None:
    assert programs.keys() == RESULTS.keys()
    assert len(programs) >= 150


def test_each_difference_has_a_program_and_a_reason() -> None:
    assert DIFFERENCES.keys() <= RESULTS.keys()
    assert all(difference.reason for difference in DIFFERENCES.values())
    assert len(DIFFERENCES) < len(RESULTS) / 8


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("factor", [1, pytest.param(50, marks=pytest.mark.long)])
def test_reading_damaged_datasets_does_not_crash_or_exhaust_memory(
    tmp_path: Path, factor: int
) -> None:
    assert check_cases("tests.contract.conformance.damage", factor, tmp_path) == factor * 80
