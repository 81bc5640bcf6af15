"""Stop in the middle of an epoch and resume, with torchdata's StatefulDataLoader.

Arguments: URL CASE…, where a case is order:num_workers:stop.
"""

import io
import sys
from itertools import islice

import torch
from support import record
from torchdata.stateful_dataloader import StatefulDataLoader

from mdstorm_backend import ExactOrder, StreamingDataset

BATCH_SIZE = 16


def make_loader(url: str, order: str, num_workers: int) -> StatefulDataLoader:
    if order == "exact":
        dataset = StreamingDataset(local=url, order=ExactOrder(5, True, True, follows_world=True))
    else:
        dataset = StreamingDataset(local=url, batch_size=BATCH_SIZE, shuffle=True)
    return StatefulDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=num_workers)


def through_a_file(state: dict) -> dict:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


url, *cases = sys.argv[1:]
for case in cases:
    order, num_workers, stop = case.split(":")
    for batch in make_loader(url, order, int(num_workers)):
        record(batch["number"], f"{case}-whole")
    loader = make_loader(url, order, int(num_workers))
    for batch in islice(loader, int(stop)):
        record(batch["number"], f"{case}-resumed")
    state = through_a_file(loader.state_dict())
    again = make_loader(url, order, int(num_workers))
    again.load_state_dict(state)
    for batch in again:
        record(batch["number"], f"{case}-resumed")
    for batch in again:
        record(batch["number"], f"{case}-next")
