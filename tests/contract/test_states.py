"""States that an earlier version took still load, and the same rows follow them."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tests.contract.states.programs import PROGRAMS, copied
from tests.contract.states.record import RECORDED, RECORDED_BY_RULE_1

_RECORDED = json.loads(RECORDED.read_text())
_RECORDED_BY_RULE_1 = json.loads(RECORDED_BY_RULE_1.read_text())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("states"))


#: TensorFlow's datasets have the states of PyTorch's loaders, and take longer to make.
_OF_TF = {"TensorFlow, MDS: middle", "TensorFlow, MDS: two epochs", "TensorFlow, MDS: elastic"}


def _marks(name: str) -> Any:
    return pytest.mark.long if name.startswith("TensorFlow") and name not in _OF_TF else ()


@pytest.mark.filterwarnings("ignore::UserWarning")  # tested elsewhere
@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        pytest.param(name, found[name], marks=_marks(name), id=f"{name}, {rule}")
        for rule, found in {"rule 0": _RECORDED, "rule 1": _RECORDED_BY_RULE_1}.items()
        for name in PROGRAMS
        if name in found
    ],
)
def test_recorded_state_loads_and_recorded_rows_follow(
    name: str, recorded: dict[str, Any], data: Path
) -> None:
    assert PROGRAMS[name].following(data, recorded["states"]) == recorded["following"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # tested elsewhere
@pytest.mark.parametrize("name", [name for name in _RECORDED if name.startswith("exact order: ")])
def test_state_after_recorded_state_keeps_its_order(name: str, data: Path) -> None:
    recorded = _RECORDED[name]
    found = PROGRAMS[name].following(data, recorded["states"], breaks=True)
    for passes, expected in zip(found, recorded["following"], strict=True):
        batches = list(chain.from_iterable(expected))
        # After the last batch of a pass, another pass follows.
        assert list(chain.from_iterable(passes))[: len(batches)] == batches
