"""The splits of docs/how-to/split.md are disjoint however their loaders are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, run_blocks, some

PAGE = "how-to/split.md"
DATA = pa.table({"id": np.arange(1000), "label": (np.arange(1000) % 10 == 0).astype(int)})


def assert_disjoint(train: Any, validation: Any) -> None:
    """Assert it in a peek, a loop that is left, and two whole passes of each loader."""
    early = [{*some(part, 1), *some(part, 2)} for part in (train, validation)]
    for _ in range(2):
        whole = [column(part) for part in (train, validation)]
        assert sorted(whole[0] + whole[1]) == list(range(1000))
        assert early[0] <= {*whole[0]}
        assert early[1] <= {*whole[1]}


@pytest.mark.parametrize("blocks", [1, 3, 4, 5], ids=["random", "by time", "fold", "by hash"])
def test_parts_of_a_split_are_disjoint_in_all_passes(blocks: int, tmp_path: Path) -> None:
    names = run_blocks(PAGE, slice(blocks), DATA, tmp_path)
    assert_disjoint(names["train"], names["validation"])


def test_cell_that_runs_again_makes_the_same_stratified_split(tmp_path: Path) -> None:
    first, again = (run_blocks(PAGE, slice(2), DATA, tmp_path)["is_validation"] for _ in range(2))
    assert first.tolist() == again.tolist()


def test_random_split_resumes_on_two_ranks_and_validates_in_between(tmp_path: Path) -> None:
    names = run_blocks(PAGE, slice(1), DATA, tmp_path)
    train, validation = names["train"], names["validation"]
    seen = some(train, 30)
    state = train.state_dict()
    validated = column(validation)
    for rank in range(2):
        share = names["converter"].make_torch_dataloader(
            rows=~names["is_validation"], cur_shard=rank, shard_count=2, **names["options"]
        )
        share.load_state_dict(state)
        seen += column(share)
    assert sorted(seen + validated) == list(range(1000))
