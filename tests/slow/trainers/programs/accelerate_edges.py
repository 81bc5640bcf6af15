"""Prepared loaders over few rows, and loaders that raise errors; arguments: URL_OF_5_ROWS URL."""

import sys
from typing import Any

import pytest
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import gather_object
from support import converter_of, record
from torch.utils.data import DataLoader

from mdstorm_backend import StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError

few, url = sys.argv[1:]
accelerator = Accelerator(cpu=not torch.cuda.is_available())


def loader_of(url: str, **options: Any) -> Any:
    return converter_of(url).make_torch_dataloader(**{"num_epochs": 1, **options})


# The second rank has no rows, and no earlier batch that it could repeat.
for batch in accelerator.prepare(loader_of(few, batch_size=8)):
    assert batch["number"].shape == (8,)
    record(accelerator.gather_for_metrics(batch["number"]), "few")

# A state before the last batch, in which the second rank also has no rows. Prepared loaders with
# the same or a different batch size resume from it.
loader = accelerator.prepare(loader_of(few, batch_size=2))
batches = iter(loader)
first = accelerator.gather_for_metrics(next(batches)["number"])
state = loader.state_dict()
assert gather_object([state]) == [state, state]  # all ranks may write the same file
batches.close()
for part, batch_size in (("same", 2), ("other", 1)):
    record(first, part)
    resumed = accelerator.prepare(loader_of(few, batch_size=batch_size))
    resumed.load_state_dict(state)
    for batch in resumed:
        assert batch["number"].shape == (batch_size,)
        record(accelerator.gather_for_metrics(batch["number"]), part)
    assert resumed.remainder == 1
    after_the_end = accelerator.prepare(loader_of(few, batch_size=batch_size))
    after_the_end.load_state_dict(resumed.state_dict())
    rows = [accelerator.gather_for_metrics(batch["number"]) for batch in after_the_end]
    record(torch.cat(rows), f"next-{part}")

# A state that is loaded into the loader, or into its dataset, before the loader is prepared.
for part in ("loader", "dataset"):
    plain = loader_of(few, batch_size=2, cur_shard="auto")
    batches = iter(plain)  # while it is held, its batch counts
    record(next(batches)["number"], f"loaded-by-{part}")
    loaded = loader_of(few, batch_size=2, cur_shard="auto")
    (loaded if part == "loader" else loaded.dataset).load_state_dict(plain.state_dict())
    for batch in accelerator.prepare(loaded):
        rest = accelerator.gather_for_metrics(batch["number"])
        if accelerator.is_main_process:
            record(rest, f"loaded-by-{part}")

# An endless loader has no length, and no last batch to pad.
endless = accelerator.prepare(loader_of(few, batch_size=2, num_epochs=None))
with pytest.raises(TypeError, match="never ends"):
    len(endless)
for _, batch in zip(range(10), endless, strict=False):
    assert len(batch["number"]) == 2
    assert not accelerator.gradient_state.end_of_dataloader
endless.close()

# These samples are already a share of the rows, which Accelerate would split again. Each rank
# raises an error, even if only the first rank would read.
for dispatches in (False, True):
    splitting = Accelerator(
        cpu=not torch.cuda.is_available(),
        dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatches),
    )
    with pytest.raises(InvalidArgumentError, match="StreamingTrainerMixin"):
        splitting.prepare(DataLoader(StreamingDataset(local=url, batch_size=10), batch_size=10))
accelerator.end_training()
