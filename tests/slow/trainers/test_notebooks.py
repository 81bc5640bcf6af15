"""The example notebooks that need a training framework run from top to bottom."""

from pathlib import Path

import pytest
from tests.kit.notebooks import AS_PETASTORM, RUN_WITH_TRAINERS, check_notebook
from tests.slow.trainers.launching import STAND_IN

#: In one of pytest's directories, the paths of Ray's sockets would be too long.
VARIABLES = {"11_ray": {"RAY_TMPDIR": "/tmp"}, "12_composer": {"PYTHONPATH": STAND_IN}}


@pytest.mark.long
@pytest.mark.parametrize("name", RUN_WITH_TRAINERS)
def test_notebook_prints_the_committed_outputs_and_leaves_no_copy(
    name: str, tmp_path: Path
) -> None:
    first = AS_PETASTORM if name.startswith("before/") else ""
    check_notebook(name, tmp_path, first=first, environment=VARIABLES.get(name))
    assert list(tmp_path.rglob("*.mds")) == []
