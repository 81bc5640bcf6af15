"""The same programs over the classes themselves, under MosaicML Streaming and under ours."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interop.conftest import RunInMosaic
from tests.interop.in_mosaic.surface import PROGRAMS, play
from tests.mds_backend.small_datasets import write_dataset

import mdstorm_backend

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(
    run_in_mosaic: RunInMosaic, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    directory = tmp_path_factory.mktemp("surface")
    data, ours, theirs = (directory / name for name in ("data", "ours", "theirs"))
    write_dataset(data, {"number": range(90)}, {"number": "long"}, shard_size=400)
    for scratch in (ours, theirs):
        scratch.mkdir()
    found = play(mdstorm_backend, str(data), str(ours))
    return found, run_in_mosaic("surface.py", data, theirs)


@pytest.mark.parametrize("name", [program.__name__ for program in PROGRAMS])
def test_a_program_has_the_same_results(
    results: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    found, expected = results
    assert found[name] == expected[name]
