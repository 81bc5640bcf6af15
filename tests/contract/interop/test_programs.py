"""Programs written for MosaicML Streaming give the same results with mdstorm.

MosaicML Streaming's results are in recorded.json; only a few programs are run with it again. The
programs avoid the differences that are documented in docs/mosaicml.md.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import of_values
from tests.contract.conformance.describing import agree
from tests.contract.conformance.running import Program, load_programs, needs_spark, run
from tests.kit.installed import installed_as_streaming

from mdstorm_backend.streaming.base.format.mds.encodings import _encodings
from mdstorm_backend.streaming.base.stream import streams_registry

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).with_name("programs")
RESULTS: dict[str, Any] = json.loads(PROGRAMS.with_name("recorded.json").read_text("utf-8"))

#: Programs that run only in the long tests.
LONG = (
    "dataframes.columns_found_by_themselves",
    "dataframes.preprocessed_by_a_function",
    "dataframes.without_a_merged_index",
)

#: Programs that also run with MosaicML Streaming, to check that the recording is up to date.
AGAIN = (
    "mixing.proportions",
    "quick_start.remote_and_local",
    "resuming.in_the_middle_of_an_epoch",
    "texts.prompts_and_responses",
)


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Program]]:
    with installed_as_streaming():
        yield load_programs(PROGRAMS)


@pytest.fixture(autouse=True)
def _no_names_left() -> Iterator[None]:
    """Unregister the encodings and stream kinds that a program has registered."""
    encodings, kinds = set(_encodings), set(streams_registry.get_all())
    yield
    for name in set(_encodings) - encodings:
        del _encodings[name]
    for name in set(streams_registry.get_all()) - kinds:
        del streams_registry._kinds[name]


def _marked(name: str) -> Any:
    marks = [of_values] * name.startswith("dataframes.") + [pytest.mark.long] * (name in LONG)
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_marked(name) for name in RESULTS])
def test_program_gives_the_recorded_result(
    name: str, programs: dict[str, Program], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program = programs[name]
    spark = None
    if needs_spark(program):
        assert name.startswith("dataframes."), "needs the mark of tests with a session"
        spark = request.getfixturevalue("spark")
    result = run(program, tmp_path, spark)
    assert agree(RESULTS[name], result), f"MosaicML: {RESULTS[name]}\nmdstorm:  {result}"


def test_each_program_has_a_recorded_result(programs: dict[str, Program]) -> None:
    assert programs.keys() == RESULTS.keys()
    assert len(programs) > 50


@pytest.mark.long
def test_recorded_results_equal_new_mosaicml_streaming_results(tmp_path: Path) -> None:
    python = os.environ.get("MDSTORM_INTEROP_PYTHON")
    if not python:
        pytest.skip("MDSTORM_INTEROP_PYTHON is not set to a Python with MosaicML Streaming")
    done = subprocess.run(
        [python, "-m", "tests.contract.interop.record", "--print", *AGAIN],
        cwd=ROOT,
        # An empty path, so that mdstorm does not replace `streaming`.
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: RESULTS[name] for name in AGAIN}
