"""One set of programs under the real Petastorm and under mdstorm: both get the same.

What Petastorm gave is in recorded.json, so that Petastorm is not needed here. Where mdstorm gives
something else on purpose, differences.json says what, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.describing import agree
from tests.conformance.differences import DIFFERENCES
from tests.conformance.running import RECORDED, Program, load_programs, needs_spark, run
from tests.installed import installed_as_petastorm

RESULTS: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Program]]:
    with installed_as_petastorm():
        yield load_programs()


@pytest.mark.parametrize("name", RESULTS)
def test_program(
    name: str,
    programs: dict[str, Program],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    program = programs[name]
    spark = request.getfixturevalue("spark_with_cache") if needs_spark(program) else None
    result = json.loads(json.dumps(run(program, tmp_path, spark)))
    if name in DIFFERENCES:
        assert result == DIFFERENCES[name].mdstorm
        assert not agree(RESULTS[name], result), "no difference any more: remove it from the table"
    else:
        assert agree(RESULTS[name], result), f"Petastorm: {RESULTS[name]}\nmdstorm:   {result}"


def test_all_programs_are_recorded(programs: dict[str, Program]) -> None:
    assert programs.keys() == RESULTS.keys()
    assert len(programs) >= 150


def test_differences_are_those_of_programs() -> None:
    assert DIFFERENCES.keys() <= RESULTS.keys()
    assert all(difference.reason for difference in DIFFERENCES.values())
    assert len(DIFFERENCES) < len(RESULTS) / 8
