"""Elastic order plans: offsets of worker processes' batches, and positions after them."""

import threading
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.elastic import ElasticOrder, ElasticPlan, elastic_plan
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.elastic.epoch_cache import EpochCache
from mdstorm_backend.order import Batching, Position, StreamShape, World


def plan_of(
    samples: int, dealt: int, batch_size: int, parts: int, *, drop_last: bool
) -> ElasticPlan:
    order = ElasticOrder(dealt, world=World(1, 2), streams=(StreamShape((samples,)),))
    batching = Batching(batch_size, drop_last=drop_last, num_epochs=2, num_parts=parts)
    return ElasticPlan(order, batching=batching)


def in_turns(lists: list[list[int]]) -> list[int]:
    """Batches in the order of PyTorch's loader, which takes one from each list in turn."""
    longest = max(map(len, lists))
    return [one[n] for n in range(longest) for one in lists if n < len(one)]


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(8, 90),
    dealt=st.integers(1, 7),
    batch_size=st.integers(1, 7),
    parts=st.integers(1, 4),
    drop_last=st.booleans(),
)
def test_batches_are_numbered_in_round_robin_order_of_workers(
    samples: int, dealt: int, batch_size: int, parts: int, drop_last: bool
) -> None:
    plan = plan_of(samples, dealt, batch_size, parts, drop_last=drop_last)
    read = [plan.samples(part) for part in range(parts)]
    batches = [list(zip(one.offsets, one.sizes, strict=True)) for one in read]
    offsets = in_turns([[offset for offset, _ in part] for part in batches])
    assert offsets == list(range(1, plan.num_batches() + 1))
    consumed = 0
    for offset, size in sorted(chain.from_iterable(batches)):
        consumed += 2 * size
        position = plan.position(offset)
        assert (position.consumed, position.epoch) == (consumed, 0)
        is_known = parts == 1 or dealt == batch_size or consumed >= (plan.resolved_start.end or 0)
        assert bool(position.reason) != is_known


@given(part=st.integers(0, 2), taken=st.integers(1, 4))
def test_worker_resumes_after_its_own_batches(part: int, taken: int) -> None:
    plan = plan_of(80, 4, 3, 3, drop_last=False)
    chunks, sizes, offsets = plan.samples(part)
    numbers, batches = list(chain.from_iterable(chunks)), list(zip(sizes, offsets, strict=True))
    position, same = plan.position_of_part(part, batches[min(taken, len(batches)) - 1][1])
    rest = replace(plan, start=position).samples(same)
    skipped = sum(size for size, _ in batches[:taken])
    assert [int(n) for n in chain.from_iterable(rest.chunks)] == [int(n) for n in numbers[skipped:]]
    assert list(zip(rest.sizes, rest.offsets, strict=True)) == batches[taken:]


def test_thread_computes_the_next_epoch_while_a_large_one_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def noted(*arguments: Any) -> list[Any]:
        threads.append(threading.current_thread().name)
        return rank_work(*arguments)

    monkeypatch.setattr(elastic_plan, "rank_work", noted)
    monkeypatch.setattr(elastic_plan, "MANY_SAMPLES", 40)
    plan = plan_of(40, 4, 4, 1, drop_last=False)
    assert sum(map(len, plan.samples().chunks)) == 20
    following = plan.following()
    assert following is not None
    assert following.num_batches() == 5
    assert threads == ["MainThread", "mdstorm-epoch"]


def test_next_epoch_is_computed_once_an_eighth_of_an_epoch_was_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(elastic_plan, "MANY_SAMPLES", 40)
    monkeypatch.setattr(EpochCache, "begin", lambda _, key, make: begun.append(key[1]))
    chunks = plan_of(40, 4, 1, 1, drop_last=False).samples().chunks
    assert (len(next(chunks)), begun) == (2, [])
    assert (len(next(chunks)), begun) == (18, [1])


def test_each_plan_but_the_last_is_followed_by_the_next_epochs_plan() -> None:
    plan = plan_of(40, 4, 4, 1, drop_last=False)
    following = plan.following()
    assert following is not None
    assert following.start == Position(1, first_epoch=0)
    assert following.following() is None
    assert following.end().is_end


def test_ids_after_padding_are_read_on_nodes_that_do_not_fit() -> None:
    here = {"world": World(1, 3), "streams": (StreamShape((50,)),)}
    order = ElasticOrder(2, num_canonical_nodes=4, **here)
    start = Position(initial_physical_nodes=2)
    plan = ElasticPlan(order, batching=Batching(2), start=start)
    ids = np.concatenate(list(plan.samples().chunks)).tolist()
    assert ids[-4:] == [21, 36, 47, 24]  # dealt to two nodes: padding stands before the last one
