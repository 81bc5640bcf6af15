"""States that an earlier version took still load, and the same rows follow them."""

import json
from pathlib import Path

import pytest
from tests.contract.states.programs import PROGRAMS, copied
from tests.contract.states.record import RECORDED

_RECORDED = json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("states"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # tested elsewhere
@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_state_loads_and_recorded_rows_follow(name: str, data: Path) -> None:
    recorded = _RECORDED[name]
    assert PROGRAMS[name].following(data, recorded["states"]) == recorded["following"]
