"""States of torchdata's loader that an earlier version took still load."""

import json
from pathlib import Path

import pytest
from tests.contract.states.programs import OF_TORCHDATA, copied
from tests.contract.states.record import RECORDED
from tests.kit.frameworks import import_framework


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls set_vital
@pytest.mark.parametrize("name", OF_TORCHDATA)
def test_recorded_state_loads_and_recorded_rows_follow(name: str, tmp_path: Path) -> None:
    import_framework("torchdata")
    recorded = json.loads(RECORDED.read_text())[name]
    following = OF_TORCHDATA[name].following(copied(tmp_path), recorded["states"])
    assert following == recorded["following"]
