"""Batches on a GPU, which may still be computing with earlier batches when the next one is copied.

These tests need a GPU; `test_changed_batches.py` tests the same code without one.
"""

from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.loaders import column, dataset_in, in_either_order, loader_in
from tests.kit.small_datasets import write_dataset
from torch.utils.data import DataLoader

from mdstorm_backend import StreamingDataLoader, StreamingDataset

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ROWS, BATCH, PASSES = 20_000, 500, 3
FLOATS = [f"x{i}" for i in range(8)]
#: GPU cycles that last long enough for the host to request several batches.
BUSY_CYCLES = 5_000_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path to a dataset whose values all follow from the row's number."""
    number = np.arange(ROWS)
    columns: dict[str, Any] = {"number": number, "text": [f"row {n}" for n in number]}
    columns |= {name: (number + i).astype(np.float32) for i, name in enumerate(FLOATS)}
    fields = {"number": "long", "text": "string", **dict.fromkeys(FLOATS, "float")}
    return write_dataset(tmp_path_factory.mktemp("gpu") / "data", columns, fields).url


def count_wrong(batch: Any) -> torch.Tensor:
    """Return the number of wrong values as a tensor, which the GPU computes after a delay."""
    torch.cuda._sleep(BUSY_CYCLES)
    number = batch["number"]
    wrong = [(batch[name] != (number + i).float()).sum() for i, name in enumerate(FLOATS)]
    return torch.stack(wrong).sum()


def test_accelerate_copies_small_columns_of_a_batch_together(url: str) -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = accelerate.Accelerator().prepare(loader_in("exact", url, BATCH))
    wrong = []
    for batch in loader:
        assert list(batch) == ["number", "text", *FLOATS]
        assert len({batch[name].untyped_storage().data_ptr() for name in FLOATS}) == 1
        wrong.append(count_wrong(batch))
    assert len(wrong) == ROWS // BATCH
    assert sum(wrong) == 0


@in_either_order
@pytest.mark.parametrize("has_own_stream", [False, True])
@pytest.mark.parametrize("are_copied_together", [False, True])
@pytest.mark.parametrize(
    "workers", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}], ids=str
)
def test_batches_keep_their_values_while_the_gpu_computes(
    url: str, order: str, has_own_stream: bool, are_copied_together: bool, workers: dict[str, Any]
) -> None:
    options = {} if are_copied_together else {"batch_map": dict}
    loader = loader_in(order, url, BATCH, device="cuda", **options, **workers)
    wrong, numbers = [], []
    stream = torch.cuda.stream(torch.cuda.Stream()) if has_own_stream else nullcontext()
    with stream:
        for _ in range(PASSES):
            for batch in loader:  # the batch is freed while the GPU still computes with it
                wrong.append(count_wrong(batch))
                numbers.append(batch["number"] + 0)
        assert torch.stack(wrong).sum().item() == 0
        found = torch.cat(numbers).view(PASSES, ROWS).cpu()
    assert (found.sort(dim=1).values == torch.arange(ROWS)).all()


@in_either_order
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda"), 0], ids=str)
def test_batches_on_a_gpu_equal_those_on_the_cpu(url: str, order: str, device: Any) -> None:
    batches = list(loader_in(order, url, BATCH, device=device))
    assert {batch[name].device for batch in batches for name in ("number", *FLOATS)} == {
        torch.device("cuda", 0)
    }
    for name in ("number", "text", *FLOATS):
        assert column(batches, name) == column(loader_in(order, url, BATCH), name)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_kept_batches_do_not_change_in_later_passes(url: str, num_workers: int) -> None:
    loader = loader_in("exact", url, BATCH, num_workers=num_workers, device="cuda")
    kept = [batch for _ in range(PASSES) for batch in loader]
    assert sum(count_wrong(batch) for batch in kept) == 0
    assert sum(len(batch["number"]) for batch in kept) == PASSES * ROWS


@in_either_order
@pytest.mark.parametrize("options", [{"device": "cuda"}, {"pin_memory": True}], ids=str)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_state_resumes_after_the_last_batch_used(
    url: str, order: str, options: dict[str, Any], num_workers: int
) -> None:
    options = {"num_workers": num_workers, **options}
    expected = column(loader_in(order, url, BATCH, **options))
    loader = loader_in(order, url, BATCH, **options)
    iterator = iter(loader)
    taken = column(islice(iterator, 7))
    state = loader.state_dict()
    del iterator
    resumed = loader_in(order, url, BATCH, **options)
    resumed.load_state_dict(state)
    assert taken + column(resumed) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("has_texts", [False, True])
def test_pinned_batches_copied_without_waiting_keep_their_values(
    url: str, num_workers: int, has_texts: bool
) -> None:
    columns = ["number", *FLOATS, *(["text"] if has_texts else [])]
    source = StreamingDataset(local=url, columns=columns)
    loader = StreamingDataLoader(source, BATCH, num_workers=num_workers, pin_memory=True)
    wrong = []
    for _ in range(PASSES):
        for batch in loader:
            assert batch["x1"].is_pinned()
            torch.cuda._sleep(BUSY_CYCLES)
            moved = {
                name: values.to("cuda", non_blocking=True)
                for name, values in batch.items()
                if isinstance(values, torch.Tensor)
            }
            del batch  # before the GPU has begun to copy it
            wrong.append(count_wrong(moved))
    assert len(wrong) == PASSES * ROWS // BATCH
    assert torch.stack(wrong).sum().item() == 0


@pytest.mark.parametrize("num_workers", [0, 2])
def test_plain_data_loader_pins_samples(url: str, num_workers: int) -> None:
    dataset = dataset_in("exact", url, BATCH)
    found = [
        batch["number"].to("cuda", non_blocking=True)
        for batch in DataLoader(dataset, BATCH, num_workers=num_workers, pin_memory=True)
    ]
    assert sorted(torch.cat(found).tolist()) == list(range(ROWS))


@pytest.mark.parametrize("are_copied_together", [False, True])
def test_gpu_memory_is_limited_to_a_few_copies(url: str, are_copied_together: bool) -> None:
    options = {} if are_copied_together else {"batch_map": dict}
    loader = loader_in("exact", url, BATCH, device="cuda", **options)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for batch in loader:
        size = sum(batch[name].nbytes for name in ("number", *FLOATS))
    copied = 32 * size if are_copied_together else size
    # One copy is in use, the previous one may not be freed yet, and the next one has begun.
    assert torch.cuda.max_memory_allocated() - before < 4 * copied


def test_early_end_leaves_no_batch_on_the_gpu(url: str) -> None:
    before = torch.cuda.memory_allocated()
    iterator = iter(loader_in("exact", url, BATCH, device="cuda"))
    assert next(iterator)["number"].is_cuda
    iterator.close()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_batch_map_may_return_tensors_on_the_gpu(url: str) -> None:
    def on_gpu(batch: Any) -> Any:
        return batch["number"].cuda(), batch["x0"]

    for x, y in loader_in("exact", url, BATCH, batch_map=on_gpu, device="cuda"):
        assert x.is_cuda
        assert y.is_cuda
        assert x.float().equal(y)


def test_missing_gpu_raises_error_naming_the_device(url: str) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        list(loader_in("exact", url, BATCH, device="cuda:99"))
