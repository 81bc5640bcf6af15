"""Programs whose ranks behave differently; arguments: URL PROGRAM ORDER.

PROGRAM may be "quiet", for all correct programs, each in its own process group. Each rank records
the rows of each epoch.
"""

import os
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from support import converter_of, record

from mdstorm.transform import TransformSpec
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

BATCH = 50


def main(url: str, program: str, order: str) -> None:
    if program != "quiet":
        dist.init_process_group("gloo")
        PROGRAMS[program](converter_of(url), order, dist.get_rank())
        dist.destroy_process_group()
        return
    here = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    for each in QUIET:
        # Each process group has its own file; otherwise, a rank may connect to the previous group.
        store = f"file://{os.getcwd()}/{each.__name__}"
        dist.init_process_group("gloo", init_method=store, **here)
        each(converter_of(url), order, dist.get_rank())
        dist.barrier()
        dist.destroy_process_group()


def loader_of(converter: Any, order: str, batch_size: int = BATCH, **options: Any) -> Any:
    return converter.make_torch_dataloader(
        batch_size=batch_size,
        num_epochs=1,
        shuffle_rows=True,
        order=order,
        **{"cur_shard": "auto", **options},
    )


def in_lockstep(batches: Any) -> Iterator[Any]:
    """Yield batches, but hang if another rank has no batch left, as training with DDP would."""
    for batch in batches:
        dist.all_reduce(torch.zeros(1))
        yield batch


def train(loader: Any, epoch: int, part: str = "epoch") -> None:
    for batch in in_lockstep(loader):
        record(batch["number"], f"{part}{epoch}")


def peeks_first(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    if rank == 0:
        next(iter(loader))
    for epoch in range(2):
        train(loader, epoch)


def peeks_with_a_separate_loader(converter: Any, order: str, rank: int) -> None:
    if rank == 0:
        next(iter(loader_of(converter, order)))
    for epoch in range(2):
        train(loader_of(converter, order), epoch)


def transforms(converter: Any, order: str, rank: int) -> None:
    for epoch, spec in enumerate((TransformSpec(removed_fields=["x"]), TransformSpec(twice))):
        train(loader_of(converter, order, transform_spec=spec), epoch)


def twice(frame: Any) -> Any:
    return frame.assign(x=frame["x"] * 2)


def is_started_again(converter: Any, order: str, rank: int) -> None:
    loader, state = loader_of(converter, order), Path("state.pt")
    if state.exists():
        loader.load_state_dict(torch.load(state, weights_only=True))
        for epoch in range(2):
            train(loader, epoch, "resumed")
        return
    for step, batch in enumerate(in_lockstep(loader), 1):
        record(batch["number"], "train0")
        if step == 4 and rank == 0:
            torch.save(loader.state_dict(), state)
        if step == 6:
            dist.barrier()  # rank 0 has saved, and both have recorded
            os._exit(1) if rank else signal.pause()


def dataset_of(converter: Any, order: str, batch_size: int = BATCH) -> Any:
    how: dict[str, Any] = {"shuffle": True, "batch_size": batch_size}
    if order == "exact":
        how = {"order": ExactOrder(shuffle_rows=True)}
    return StreamingDataset(local=converter.cache_dir_url.removeprefix("file://"), **how)


def validates_on_rank_0(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    for epoch in range(2):
        train(loader, epoch, "validates")
        if rank == 0:
            for options in ({"cur_shard": 0, "shard_count": 1}, {}):
                list(loader_of(converter, order, 2 * BATCH, **options))


def two_loaders(converter: Any, order: str, rank: int) -> None:
    dataset = dataset_of(converter, order)
    loaders = [StreamingDataLoader(dataset, BATCH) for _ in range(2)]
    for epoch in range(4):
        train(loaders[epoch % 2], epoch, "two")


def accumulates_compiled(converter: Any, order: str, rank: int) -> None:
    linear = torch.nn.Linear(1, 1)
    model = torch.compile(torch.nn.parallel.DistributedDataParallel(linear), backend="eager")
    optimizer = torch.optim.SGD(linear.parameters(), lr=1e-9)
    loader = loader_of(converter, order)
    for epoch in range(2):
        for number, batch in enumerate(loader, 1):
            record(batch["number"], f"accumulates{epoch}")
            model(batch["x"][:, None]).mean().backward()
            if number % 3 == 0 or number == len(loader):
                optimizer.step()
                optimizer.zero_grad()


def an_epoch_ahead(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    for epoch in range(3):
        if epoch == rank:
            dist.barrier()  # rank 1 begins its second epoch when rank 0 begins its first
        for batch in loader:
            record(batch["number"], f"ahead{epoch}")


def with_persistent_workers(converter: Any, order: str, rank: int) -> None:
    dataset = dataset_of(converter, order)
    with StreamingDataLoader(dataset, BATCH, num_workers=2, persistent_workers=True) as loader:
        for epoch in range(2):
            train(loader, epoch, "persistent")


def resumes(converter: Any, order: str, rank: int) -> None:
    loader = loader_of(converter, order)
    for batch in islice(loader, 3):
        record(batch["number"], "resumes0")
    again = loader_of(converter, order)
    again.load_state_dict(loader.state_dict())
    for epoch in range(2):
        train(again, epoch, "resumes")


PROGRAMS = {
    each.__name__: each
    for each in (
        peeks_first,
        peeks_with_a_separate_loader,
        transforms,
        is_started_again,
    )
}
QUIET = (
    two_loaders,
    accumulates_compiled,
    an_epoch_ahead,
    with_persistent_workers,
    resumes,
    validates_on_rank_0,  # last: rank 0 makes more loaders, so its epochs get ahead of rank 1's
)

main(*sys.argv[1:])
