"""User-written training loops without a framework, on ranks and on meshes."""

from pathlib import Path

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import NumberedBatches, each_once, fork, launch, torchrun

pytestmark = pytest.mark.long


def train(
    url: str, at: Path, number: int, data: int, tensor: int | None = None, steps: int = 0
) -> NumberedBatches:
    """Train for `steps` steps from where the previous run stopped, or to the end if `steps` is 0.

    In a mesh with tensor-parallel groups of `tensor` ranks, the rows of each group are returned
    once.
    """
    group = tensor or 1
    ranks, place = data * group, at / f"run-{number}"
    states = [at / f"state-{n}" for n in (number, number + 1)]
    program = ("plain_torch.py", url) if tensor is None else ("mesh.py", url, data, tensor)
    if ranks == 1:  # torchrun also makes a group for a single rank
        run = launch(*program, steps, *states, at=place, launcher=torchrun(1)).recorded()
    else:
        run = fork(*program, steps, *states, at=place, processes=ranks).recorded()
    groups = [run.batches[first : first + group] for first in range(0, data * group, group)]
    assert all(ranks == [ranks[0]] * group for ranks in groups)
    return NumberedBatches([ranks[0] for ranks in groups])


@pytest.mark.parametrize("tensor", [None, 2])
def test_plain_torch_loop_reads_each_row_once(url: str, tmp_path: Path, tensor: int | None) -> None:
    recorded = train(url, tmp_path, 0, 2, tensor)
    assert recorded.rows == each_once(ROWS)
    assert recorded.steps == [11, 11]


def test_state_from_rank_0_resumes_with_more_or_fewer_ranks(url: str, tmp_path: Path) -> None:
    runs = [
        train(url, tmp_path, 0, 2, steps=4),
        train(url, tmp_path, 1, 3, steps=2),
        train(url, tmp_path, 2, 1),
    ]
    assert runs[0].rows + runs[1].rows + runs[2].rows == each_once(ROWS)
    assert [run.steps for run in runs] == [[4, 4], [2, 2, 2], [7]]


@pytest.mark.parametrize(("data", "tensor"), [(4, 1), (1, 2)])
def test_mesh_checkpoint_resumes_in_different_mesh(
    url: str, tmp_path: Path, data: int, tensor: int
) -> None:
    first = train(url, tmp_path, 0, 2, 2, steps=4)
    assert first.rows + train(url, tmp_path, 1, data, tensor).rows == each_once(ROWS)
