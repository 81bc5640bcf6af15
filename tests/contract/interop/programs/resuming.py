"""Epochs, seeds, and resuming an interrupted run."""

from pathlib import Path
from typing import Any

import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset


def _write(folder: Path, count: int = 48) -> str:
    with MDSWriter(out=str(folder / "data"), columns={"id": "int"}, size_limit=128) as out:
        for i in range(count):
            out.write({"id": i})
    return str(folder / "data")


def _loader(local: str, batch_size: int = 4, workers: int = 0, **settings: Any) -> Any:
    settings = {"shuffle": True, "num_canonical_nodes": 2, **settings}
    dataset = StreamingDataset(local=local, batch_size=batch_size, **settings)
    return StreamingDataLoader(dataset, batch_size=batch_size, num_workers=workers)


def _ids(loader: Any) -> Any:
    return [batch["id"].tolist() for batch in loader]


_KEYS = ("epoch", "num_canonical_nodes", "sample_in_epoch", "shuffle_seed")


def _where(state: dict[str, Any]) -> Any:
    return [state[key] for key in _KEYS]


def in_the_middle_of_an_epoch(folder: Path) -> Any:
    local = _write(folder)
    first = _loader(local)
    seen = []
    for number, batch in enumerate(first):
        seen.append(batch["id"].tolist())
        if number == 4:
            state = first.state_dict()
            break
    again = _loader(local)
    again.load_state_dict(state)
    return [_where(state), seen, _ids(again), _ids(again)]


def from_a_checkpoint_file(folder: Path) -> Any:
    """A trainer that saves the states of model and loader in one file after every second batch."""
    local, checkpoint = _write(folder), folder / "latest.pt"
    torch.manual_seed(1)
    model, losses = torch.nn.Linear(1, 1), []
    loader = _loader(local)
    for step, batch in enumerate(loader):
        losses.append(round(float(model(batch["id"][:, None].float()).detach().mean()), 3))
        if step % 2:
            torch.save({"model": model.state_dict(), "data": loader.state_dict()}, checkpoint)
        if step == 5:
            break
    saved = torch.load(checkpoint)
    loader = _loader(local)
    loader.load_state_dict(saved["data"])
    model.load_state_dict(saved["model"])
    return [_where(saved["data"]), losses, _ids(loader)]


def a_state_of_the_dataset(folder: Path) -> Any:
    local = _write(folder)
    dataset = StreamingDataset(local=local, batch_size=4, shuffle=True)
    rows = iter(dataset)
    seen = [next(rows)["id"] for _ in range(10)]
    state = dataset.state_dict(num_samples=10, from_beginning=True)
    again = StreamingDataset(local=local, batch_size=4, shuffle=True)
    again.load_state_dict(state)
    return [_where(state), seen, [sample["id"] for sample in again]]


def after_a_whole_epoch(folder: Path) -> Any:
    local = _write(folder, 12)
    loader = _loader(local)
    rest = [_ids(loader)]
    for batch in loader:
        rest.append(batch["id"].tolist())
        break
    state = loader.state_dict()
    again = _loader(local)
    again.load_state_dict(state)
    return [rest, _where(state), _ids(again)]


def a_seed_from_the_state(folder: Path) -> Any:
    local = _write(folder, 16)
    first = _loader(local, shuffle_seed=5)
    rows = iter(first)
    next(rows)
    state = first.state_dict()
    again = _loader(local, shuffle_seed=6)
    again.load_state_dict(state)
    return [state["shuffle_seed"], _ids(again)]


class _Packed(StreamingDataset):
    """A dataset for a loader that packs four samples into each row and counts rows, not samples."""

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        return super().state_dict(int(4.0 * num_samples), from_beginning)


class _OfFours(StreamingDataLoader):  # type: ignore[misc]
    def _get_batch_size(self, batch: Any) -> int:
        return 4 * len(batch["id"])


def rows_packed_of_several_samples(folder: Path) -> Any:
    local = _write(folder)

    def pack(samples: list[dict[str, int]]) -> Any:
        return {"id": torch.tensor([sample["id"] for sample in samples]).view(-1, 4)}

    def loader(dataset: Any, loader: Any) -> Any:
        settings = {"batch_size": 8, "shuffle": True, "num_canonical_nodes": 2}
        return loader(dataset(local=local, **settings), batch_size=8, collate_fn=pack)

    found = []
    for kinds in ((_Packed, StreamingDataLoader), (StreamingDataset, _OfFours)):
        first = loader(*kinds)
        for _, batch in zip(range(3), first, strict=False):
            seen = batch["id"].tolist()
        state = first.state_dict()
        again = loader(*kinds)
        again.load_state_dict(state)
        rest = iter(again)
        then = [next(rest)["id"].tolist(), _where(again.state_dict()), _ids(rest)]
        found.append([_where(state), first.num_samples_yielded, seen, then])
    return found
