"""Ranks of a mesh: data-parallel shares, equal ones within a tensor-parallel group."""

from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import Delivered, each_once, launch, torchrun

pytestmark = pytest.mark.long


def train(url: str, at: Path, number: int, data: int, tensor: int, steps: int = 0) -> Delivered:
    """Go on in a mesh, for so many steps or to the end; return the rows of each group once."""
    states = [at / f"state-{n}" for n in (number, number + 1)]
    run = launch(
        "mesh.py",
        *(url, data, tensor, steps, *states),
        at=at / f"run-{number}",
        launcher=torchrun(data * tensor),
    ).delivered()
    groups = [run.batches[first : first + tensor] for first in range(0, data * tensor, tensor)]
    assert all(group == [group[0]] * tensor for group in groups)
    return Delivered([group[0] for group in groups])


def test_a_mesh_of_two_by_two_reads_every_row_once(url: str, tmp_path: Path) -> None:
    delivered = train(url, tmp_path, 0, data=2, tensor=2)
    assert delivered.rows == each_once(ROWS)
    assert delivered.steps == [11, 11]


@pytest.mark.parametrize(("data", "tensor"), [(4, 1), (1, 2)])
def test_a_checkpoint_of_a_mesh_goes_on_in_another_one(
    url: str, tmp_path: Path, data: int, tensor: int
) -> None:
    first = train(url, tmp_path, 0, data=2, tensor=2, steps=4)
    assert first.rows + train(url, tmp_path, 1, data, tensor).rows == each_once(ROWS)
