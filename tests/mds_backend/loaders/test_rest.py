"""What is left of a pass, in blocks."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.sampler import Place


@pytest.mark.parametrize(("part", "num_workers"), [(0, 0), (1, 3)])
def test_a_block_of_endless_epochs_needs_few_of_them(
    tmp_path: Path, part: int, num_workers: int
) -> None:
    order = ExactOrder().resolved()
    options = ReaderOptions(write_numbers(tmp_path, 2), order, num_epochs=None)
    rest = Rest(options, Batching(1, num_workers=num_workers), Place())
    blocks: Any = rest.blocks(part)
    with closing(blocks):
        first, *_, last = islice(blocks, 8)
    assert (len(first.sizes), len(last.sizes)) == (1, 32)
