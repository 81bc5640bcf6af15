"""Tensors packed into one buffer, and batches with such tensors."""

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.loaders import assert_same_tensors, in_either_order, loader_in
from tests.kit.small_datasets import write_dataset
from torch.utils.data import default_collate

from mdstorm_backend.loaders.torch import moved_batches
from mdstorm_backend.loaders.torch.moved_batches import repeated_rows
from mdstorm_backend.loaders.torch.packed_tensors import pack, pack_batches, unpack, unpack_batches

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex128),
)
allocate = partial(torch.empty, dtype=torch.uint8)
empty = torch.empty
shapes = st.lists(st.integers(0, 5), max_size=3)


def unpinned(*size: int, pin_memory: bool = False, **options: Any) -> torch.Tensor:
    """Allocate memory like `torch.empty`, which can pin it only if there is a GPU."""
    return empty(*size, **options)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Tensors of any dtype and shape, some of which are not contiguous."""
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    found = torch.randint(0, 2, [*shape, 2]).to(dtype)
    return found[..., 0] if draw(st.booleans()) else found[..., 0].contiguous()


@given(st.lists(tensors()))
def test_unpacked_tensors_equal_the_packed_ones(given_: list[torch.Tensor]) -> None:
    found = unpack(pack(given_, allocate))
    assert len(found) == len(given_)
    for one, other in zip(found, given_, strict=True):
        assert_same_tensors(one, other)
        assert one.is_contiguous()


@given(st.lists(tensors()))
def test_packed_tensors_are_aligned(given_: list[torch.Tensor]) -> None:
    packed_tensors = pack(given_, allocate)
    for one in unpack(packed_tensors):
        if one.numel():
            assert packed_tensors.memory is not None
            assert (one.data_ptr() - packed_tensors.memory.data_ptr()) % 16 == 0


def test_changing_an_unpacked_tensor_does_not_change_the_others() -> None:
    first, second = unpack(pack([torch.zeros(3), torch.zeros(5)], allocate))
    version = second._version
    first += 1
    assert second.tolist() == [0] * 5
    assert second._version == version  # autograd does not consider it changed


@given(st.lists(tensors(), min_size=1), st.booleans())
def test_pinned_and_received_batches_equal_the_given_ones(
    given_: list[torch.Tensor], is_large: bool
) -> None:
    large = [torch.arange(1 << 16, dtype=torch.int32).reshape(2, -1).T] if is_large else []
    batch = {"tensors": [*given_, *large], "first": (given_[0], None)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", unpinned)
        [(found, *_)] = moved_batches.pinned(numbered(batch), are_dicts=False)
    assert_same_tensors(found, batch)
    assert_same_tensors(unpack_batches(pack_batches([batch, batch])), [batch, batch])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.ones(3, dtype=torch.complex64).conj(),
    ],
    ids=["nested", "sparse", "with gradient", "conjugate"],
)
def test_tensors_of_unsupported_kinds_are_neither_packed_nor_changed(
    make: Callable[[], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = make()
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    [(found, *_)] = moved_batches.pinned(numbered({"x": tensor}), are_dicts=True)
    assert found["x"] is tensor
    [received] = unpack_batches(pack_batches([{"x": tensor}]))
    assert received["x"] is tensor


def numbered(batch: Any) -> Any:
    yield batch, 0, 1


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collector")
def test_moved_batches_are_freed_with_their_last_reference() -> None:
    """If a forked process's garbage collector freed pinned memory, the process would end."""
    batch = {"x": torch.ones(3), "y": (torch.ones(3), ["text"])}
    batches = [batch, *unpack_batches(pack_batches([batch])), repeated_rows(batch, 3, 5)]
    refs = [weakref.ref(one["x"]) for one in batches]
    del batch, batches
    assert [ref() for ref in refs] == [None] * 3


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_map": dict}, {"collate_fn": default_collate}],
    ids=["columns", "mapped", "collated"],
)
@pytest.mark.usefixtures("_without_collector")
def test_loader_frees_batches_with_their_last_reference(
    tmp_path: Any, order: str, num_workers: int, options: dict[str, Any]
) -> None:
    columns = {"number": range(100), "text": list(map(str, range(100)))}
    url = write_dataset(tmp_path / "data", columns, {"number": "long", "text": "string"}).url
    refs = []
    for batch in loader_in(order, url, 10, num_workers=num_workers, **options):
        refs.append(weakref.ref(batch["number"]))
        del batch
    assert len(refs) == 10
    assert [ref() for ref in refs] == [None] * 10
