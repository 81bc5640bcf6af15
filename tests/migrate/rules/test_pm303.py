"""Shares of ranks."""

from __future__ import annotations

import pytest
from tests.migrate.streaming_checks import MADE, check_stays, check_turned


def sharded(rank: str, size: str, before: str = "") -> str:
    call = f"conv.make_torch_dataloader(num_epochs=1, cur_shard={rank}, shard_count={size})"
    return f"{MADE}import os\nimport torch.distributed as dist\n{before}a = {call}\n"


@pytest.mark.parametrize(
    ("rank", "size", "before"),
    [
        ("0", "1", ""),
        ("None", "None", ""),
        ("dist.get_rank()", "dist.get_world_size()", ""),
        ("int(os.environ['RANK'])", "int(os.getenv('WORLD_SIZE', '1'))", ""),
        ("r", "n", "r = int(os.environ.get('RANK', 0))\nn = dist.get_world_size()\n"),
    ],
)
def test_shares_that_the_environment_gives_go(rank: str, size: str, before: str) -> None:
    output = check_turned(sharded(rank, size, before))
    assert "shard" not in output


@pytest.mark.parametrize(
    ("rank", "size", "before"),
    [
        ("hvd.rank()", "hvd.size()", "import horovod.torch as hvd\n"),
        ("r", "n", ""),
        ("r", "dist.get_world_size()", "r = dist.get_rank()\nr = 0\n"),
        ("dist.get_world_size()", "dist.get_rank()", ""),
        ("int(os.environ['LOCAL_RANK'])", "2", ""),
        ("0", "2", ""),
    ],
)
def test_other_shares_keep_the_converter(rank: str, size: str, before: str) -> None:
    check_stays(sharded(rank, size, before), "RANK", "PM303")
