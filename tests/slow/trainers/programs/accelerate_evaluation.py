"""The result of `gather_for_metrics` for prepared loaders; arguments: URL URL_OF_1008_ROWS."""

import pickle
import sys
from collections.abc import Iterable
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from support import converter_of, record

from mdstorm_backend import StreamingDataLoader, StreamingDataset

url, even_url = sys.argv[1:]
accelerator = Accelerator(cpu=not torch.cuda.is_available())
rank, world = accelerator.process_index, accelerator.num_processes


def evaluate(part: str, loader: Iterable[Any]) -> None:
    """Record this rank's and all ranks' rows; check that only the last batch signals the end."""
    ends = []
    for batch in loader:
        record(batch["number"], part)
        gathered = accelerator.gather_for_metrics(batch["number"])
        texts = accelerator.gather_for_metrics(batch["text"])
        assert texts == [f"row {number}" for number in gathered.tolist()], texts
        if accelerator.is_main_process:
            record(gathered, f"all-{part}")
        ends.append(accelerator.gradient_state.end_of_dataloader)
    assert ends == [False] * (len(ends) - 1) + [True]
    assert not accelerator.gradient_state.in_dataloader
    assert len(ends) == len(loader)


def loader_of(batch_size: int, url: str = url, **options: Any) -> Any:
    return converter_of(url).make_torch_dataloader(
        batch_size=batch_size, num_epochs=1, shuffle_rows=True, **options
    )


# Rows left after the last full global batch of two ranks: none, one, and one more than a rank's
# batch.
for part, rest, loader in (
    ("none", 0, loader_of(63, even_url)),
    ("one", 1, loader_of(63)),
    ("batch-and-one", 17, loader_of(16)),
):
    prepared = accelerator.prepare(loader)
    evaluate(part, prepared)
    if world == 2:
        assert prepared.remainder == rest, (part, prepared.remainder)
    assert prepared.total_batch_size == world * (63 if part != "batch-and-one" else 16)
    assert len(prepared.dataset) == prepared.total_dataset_length

evaluate("auto", accelerator.prepare(loader_of(100, cur_shard="auto")))

twice = accelerator.prepare(accelerator.prepare(loader_of(100)))
evaluate("twice", twice)
evaluate("second-epoch", twice)

kept = pickle.loads(pickle.dumps(twice))  # noqa: S301
evaluate("pickled", kept)

batches = iter(kept)
for _ in range(2):
    record(accelerator.gather_for_metrics(next(batches)["number"]), "all-on-the-way")
on_the_way = pickle.loads(pickle.dumps(kept))  # noqa: S301
batches.close()
for batch in on_the_way:
    record(accelerator.gather_for_metrics(batch["number"]), "all-on-the-way")

own_share = {"cur_shard": rank, "shard_count": world}
for batch in accelerator.prepare(loader_of(100, **own_share)):
    record(batch["number"], "explicit")
for batch in accelerator.prepare(loader_of(100, cur_shard=0, shard_count=1)):
    record(batch["number"], "all-in-each")

dataset = StreamingDataset(local=url, shuffle=True, batch_size=100)
evaluate("elastic", accelerator.prepare(StreamingDataLoader(dataset, batch_size=100)))

for part, options in (
    ("dispatched", {"dispatch_batches": True}),
    ("not-dispatched", {"dispatch_batches": False}),
    ("split", {"split_batches": True}),
    ("uneven", {"even_batches": False}),
    ("stateful", {"use_stateful_dataloader": True}),
):
    configured = Accelerator(
        cpu=not torch.cuda.is_available(), dataloader_config=DataLoaderConfiguration(**options)
    )
    prepared = configured.prepare(loader_of(100))
    assert prepared.use_stateful_dataloader is (part == "stateful")
    if part == "uneven":
        for batch in prepared:
            record(batch["number"], part)
    else:
        evaluate(part, prepared)

accelerator.end_training()
