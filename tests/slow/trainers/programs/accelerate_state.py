"""Stop in the middle of an epoch, or resume there; arguments: URL CHECKPOINT stop|go-on."""

import sys

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from support import converter_of, record

url, checkpoint, action = sys.argv[1:]
accelerator = Accelerator(
    cpu=not torch.cuda.is_available(),
    dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True),
)
loader = accelerator.prepare(
    converter_of(url).make_torch_dataloader(batch_size=50, num_epochs=1, shuffle_rows=True)
)


def record_all(batch: dict) -> None:
    gathered = accelerator.gather_for_metrics(batch["number"])
    if accelerator.is_main_process:
        record(gathered)


if action == "stop":
    for number, batch in enumerate(loader, start=1):
        record_all(batch)
        if number == 4:
            accelerator.save_state(checkpoint)
            break
else:
    accelerator.load_state(checkpoint)
    for batch in loader:
        record_all(batch)
accelerator.end_training()
