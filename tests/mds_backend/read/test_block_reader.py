import threading
from collections.abc import Iterator

import pytest

from mdstorm_backend.read.block import Block
from mdstorm_backend.read.block_reader import batches_per_block, copied_ahead


class Dataset:
    """What the size of blocks depends on."""

    def __init__(self, rows: int, nbytes: int, columns: int = 1) -> None:
        self.rows, self.nbytes = rows, nbytes
        self.schema = ["column"] * columns

    def __len__(self) -> int:
        return self.rows


class Blocks:
    """Blocks of one batch each, and who did what with them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.planned: list[int] = []
        self.filled_by: list[threading.Thread] = []

    def plan(self) -> Iterator[Block]:
        for size in range(1, self.count + 1):
            self.planned.append(size)
            yield Block(sizes=[size])

    def fill(self, block: Block) -> Block:
        self.filled_by.append(threading.current_thread())
        return block


def test_the_first_block_does_not_wait_for_another() -> None:
    blocks = Blocks(9)
    filled = copied_ahead(blocks.fill, blocks.plan(), 2)
    next(filled)
    assert blocks.planned == [1]
    next(filled)
    assert blocks.planned == [1, 2, 3]  # one ahead of use
    filled.close()
    blocks.filled_by[-1].join(30)  # it ends by itself
    assert not blocks.filled_by[-1].is_alive()


@pytest.mark.parametrize(
    ("nbytes_per_row", "columns", "batch_size", "batches"),
    [
        (8, 1, 1000, 16),  # as many rows as a block has
        (8, 1, 100_000, 1),  # at least one batch
        (1 << 20, 1, 2, 4),  # as many bytes
        (64 << 20, 1, 1, 1),
        (1 << 14, 2048, 256, 8),  # more bytes, where there are many columns
        (1 << 20, 1 << 17, 2, 32),
    ],
)
def test_a_block_is_limited_in_rows_and_in_bytes(
    nbytes_per_row: int, columns: int, batch_size: int, batches: int
) -> None:
    dataset = Dataset(1000, 1000 * nbytes_per_row, columns)
    assert batches_per_block(dataset, 16_384, batch_size) == batches
