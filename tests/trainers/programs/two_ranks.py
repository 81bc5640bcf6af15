"""What ranks do that do not all do the same, or filter; arguments: URL PROGRAM ORDER.

What Python warns of goes to standard error. Each rank records the rows of each epoch.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from support import converter_of, record

from mdstorm.transform import TransformSpec

BATCH = 50


def main(url: str, program: str, order: str) -> None:
    dist.init_process_group("gloo")
    PROGRAMS[program](converter_of(url), order, dist.get_rank())
    dist.destroy_process_group()


def loader_of(converter: Any, order: str, **options: Any) -> Any:
    return converter.make_torch_dataloader(
        batch_size=BATCH,
        num_epochs=1,
        shuffle_rows=True,
        order=order,
        **{"cur_shard": "auto", **options},
    )


def in_lockstep(batches: Any) -> Iterator[Any]:
    """Yield batches, each of which all ranks must have: as the gradients of DDP, this hangs."""
    for batch in batches:
        dist.all_reduce(torch.zeros(1))
        yield batch


def train(loader: Any, epoch: int) -> None:
    for batch in in_lockstep(loader):
        record(batch["number"], f"epoch{epoch}")


def looks_first(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    if rank == 0:
        next(iter(loader))
    for epoch in range(2):
        train(loader, epoch)


def looks_with_a_loader_of_its_own(converter: Any, order: str, rank: int) -> None:
    if rank == 0:
        next(iter(loader_of(converter, order)))
    for epoch in range(2):
        train(loader_of(converter, order), epoch)


def looks_at_three(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    if rank == 1:
        list(islice(loader, 3))
    for epoch in range(2):
        train(loader, epoch)


def seeds(converter: Any, order: str, rank: int) -> None:
    for epoch in range(2):
        for batch in loader_of(converter, order, seed=42 + rank):
            record(batch["number"], f"epoch{epoch}")


def transforms(converter: Any, order: str, rank: int) -> None:
    for epoch, spec in enumerate((TransformSpec(removed_fields=["x"]), TransformSpec(twice))):
        train(loader_of(converter, order, transform_spec=spec), epoch)


def twice(frame: Any) -> Any:
    return frame.assign(x=frame["x"] * 2)


PROGRAMS = {
    each.__name__: each
    for each in (looks_first, looks_with_a_loader_of_its_own, looks_at_three, seeds, transforms)
}

main(*sys.argv[1:])
