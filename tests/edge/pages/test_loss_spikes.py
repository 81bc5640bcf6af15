"""The batches that docs/how-to/loss-spikes.md leaves out are the ones after the state."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, of_tensorflow, run_blocks, some

ROWS = 1000


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    table = pa.table({"id": np.arange(ROWS)})
    return run_blocks("how-to/loss-spikes.md", slice(1), table, tmp_path)


def test_pass_without_the_left_out_batches_has_the_other_rows_once(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    whole = column(make(**options))
    loader = make(**options)
    some(loader, 1)
    loader.load_state_dict(page["checkpoint"], skip_batches=30)
    peeked = some(loader, 1)
    assert peeked == page["expected"]["id"].tolist()
    loader.load_state_dict(page["checkpoint"], skip_batches=30)
    assert column(loader) == whole[500:]
    assert sorted(column(loader)) == [*range(ROWS)]  # the next epoch is whole


def test_each_of_two_ranks_leaves_out_its_own_batches(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    rests = []
    for skipped in (0, 15):
        shares = [make(cur_shard=rank, shard_count=2, **options) for rank in range(2)]
        for share in shares:
            share.load_state_dict(page["checkpoint"], skip_batches=skipped)
        rests.append([[batch["id"].tolist() for batch in share] for share in shares])
    assert rests[1] == [batches[15:] for batches in rests[0]]


def test_end_of_an_epoch_is_crossed_only_if_there_are_further_epochs(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, {**page["options"], "num_epochs": 2}
    whole = column(make(**options))
    loader = make(**options)
    some(loader, 20)
    state = loader.state_dict()
    loader.load_state_dict(state, skip_batches=100)
    assert column(loader) == whole[1200:]
    with pytest.raises(ValueError, match="80"):
        make(**page["options"]).load_state_dict(page["checkpoint"], skip_batches=81)


def test_tensorflow_leaves_out_the_batches_after_the_state(page: Any) -> None:
    whole, begun, resumed = (page["converter"].make_tf_dataset(**page["options"]) for _ in range(3))
    rows = column(of_tensorflow(whole))
    assert some(of_tensorflow(begun), 20) == rows[:200]
    resumed.load_state_dict(begun.state_dict(), skip_batches=30)
    assert column(of_tensorflow(resumed)) == rows[500:]
