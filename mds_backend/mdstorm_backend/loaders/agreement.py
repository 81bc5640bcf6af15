"""Tell ranks that begin different things, without a collective and without waiting.

A rank that begins a pass offers what it begins in the store of its process group, by one
`compare_set`, which is atomic and returns what the first rank has offered. A daemon thread asks: a
store may be slow, gone, or of an unknown kind, and none of that may touch training. What it finds
is said with the next batch.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple

from mdstorm_backend.base.checks import warn_user
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.state import selection_of

#: Epochs of one share that are offered at most: a program may begin one in every step.
_MOST_EPOCHS = 1_000
#: Seconds that the end of the process waits for what is being asked.
_PATIENCE = 0.5

#: What ranks have to agree on, by its name in messages, and what to do where they do not.
_REMEDIES = {
    "seed": "give all ranks one seed, without adding the rank",
    "batch size": "give all ranks one batch size",
    "samples consumed": "load the same state on all ranks, or on none",
    "batches of the epoch before": "let all ranks take equally many batches of each epoch, or call "
    "set_epoch(epoch) on all of them before it",
}


class Group(NamedTuple):
    """The default process group: itself, its store, and this process's rank in it."""

    itself: Any
    store: Any
    rank: int
    size: int


def find_group() -> Group | None:
    """Return the default process group of several ranks; None if there is none, or no store."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    itself, size = distributed.group.WORLD, distributed.get_world_size()
    with suppress(Exception):  # private, and whatever a store may raise
        store = distributed.distributed_c10d._get_default_store()
        return Group(itself, store, distributed.get_rank(), size) if size > 1 else None
    return None


@dataclass(eq=False)
class Beginning:
    """A pass that this rank has begun among others.

    Attributes
    ----------
    batches : int
        Batches of it that were delivered.
    warnings, errors : list of str
        What is to be said.
    """

    batches: int = 0
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    forget: Callable[[], object] = lambda: None

    def count(self) -> None:
        """Count a batch, and say what was found.

        Raises
        ------
        InvalidArgumentError
            If ranks lose rows.
        """
        self.batches += 1
        if self.warnings or self.errors:
            self.tell()

    def tell(self) -> None:
        """Say what was found."""
        while self.warnings:
            _warn_once(self.warnings.pop())
        if self.errors:
            raise InvalidArgumentError(self.errors.pop())


class Ranks:
    """What this process has offered, and the thread that asks.

    Parameters
    ----------
    inherited : object, optional
        A process group that a fork has of its parent, whose store it must not use.
    """

    def __init__(self, inherited: Any = None) -> None:
        self._inherited = inherited
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._group: Any = lambda: None
        self._number = 0
        self._begun: dict[str, dict[int, Beginning]] = {}
        self._last = Beginning()

    def begin(self, rest: Rest) -> Beginning | None:
        """Offer what is begun; None if there is nobody to ask."""
        self._last.tell()
        group, num_shares = find_group(), rest.sampler.num_ranks
        if group is None or group.itself is self._inherited or num_shares == 1:
            return None
        _warn_of_shares(rest, num_shares, group.size)
        if rest.options.check_ranks:
            with suppress(Exception):  # whatever is wrong with the group, training goes on
                return self._offer(group, rest, num_shares)
        return None

    def _offer(self, group: Group, rest: Rest, num_shares: int) -> Beginning | None:
        self._count_group(group)
        options, place = rest.options, rest.place
        what = json.dumps([num_shares, selection_of(options), options.order.name], sort_keys=True)
        name = f"mdstorm/{self._number}/{hashlib.sha256(what.encode()).hexdigest()[:16]}"
        begun = self._begun.setdefault(name, {})
        if place.epoch in begun or len(begun) >= _MOST_EPOCHS:
            return None  # another loader over the same: ranks may have several, one after the other
        before = begun.get(place.epoch - (options.num_epochs or 1))
        found = begun[place.epoch] = self._last = Beginning()
        found.forget = lambda: begun.pop(place.epoch, None)
        offered = _offered(rest, before)
        self._ask(lambda: _compare(group, f"{name}/{place.epoch}", rest, offered, found))
        return found

    def _count_group(self, group: Group) -> None:
        """Number the groups: after one was destroyed, its keys may still be in the store."""
        if self._group() is not group.itself:
            self._group = weakref.ref(group.itself)
            self._number += 1
            self._begun = {}

    def _ask(self, ask: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mdstorm-ranks", daemon=True)
            self._thread.start()
        self._queue.put(ask)

    def _run(self) -> None:
        while (ask := self._queue.get()) is not None:
            with suppress(Exception):
                ask()

    def finish(self) -> None:
        """Wait for a moment until everything was asked, as the process ends."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_PATIENCE)


def _offered(rest: Rest, before: Beginning | None) -> dict[str, Any]:
    order, place, sampler = rest.options.order, rest.place, rest.sampler
    known = before is not None and sampler.has_equal_batches
    return {
        "seed": order.state_keys(place)["shuffle_seed"] if order.shuffles_anything else None,
        "batch size": rest.batching.batch_size,
        "samples consumed": place.consumed,
        "batches of the epoch before": before.batches if before and known else None,
    }


def _compare(
    group: Group, key: str, rest: Rest, offered: Mapping[str, Any], found: Beginning
) -> None:
    """Ask what the first rank has offered, and note where this one differs."""
    order, url, epoch = rest.options.order, rest.options.dataset.url, rest.place.epoch
    first = json.loads(group.store.compare_set(key, "", json.dumps([group.rank, offered])))
    other, theirs = first
    for name, mine in offered.items() if other != group.rank else ():
        if mine == theirs[name] or None in (mine, theirs[name]):
            continue
        is_lost = name == "seed" and order.deals_by_seed
        (found.errors if is_lost else found.warnings).append(
            f"rank {group.rank} begins epoch {epoch} of {url} with {name} {mine}, and rank {other} "
            f"with {theirs[name]}, so ranks lose and repeat rows, now or after a resume: "
            f"{_REMEDIES[name]}. check_ranks=False leaves such questions out"
        )
    if rest.sampler.num_ranks == group.size:
        share = order.world.rank
        taken = json.loads(group.store.compare_set(f"{key}/{share}", "", json.dumps(group.rank)))
        if taken != group.rank:
            found.warnings.append(
                f"ranks {taken} and {group.rank} both read share {share} of {group.size} of {url} "
                f"in epoch {epoch}, so another share is nobody's: pass each rank's own number as "
                'cur_shard, or cur_shard="auto"'
            )


def _warn_of_shares(rest: Rest, num_shares: int, num_ranks: int) -> None:
    options = rest.options
    if num_shares > num_ranks:
        _warn_once(
            f"the rows of {options.dataset.url} are split into {num_shares} shares, and there are "
            f"{num_ranks} ranks, so some shares are nobody's: pass shard_count={num_ranks}, or "
            'cur_shard="auto"'
        )
    if getattr(options.transform, "leaves_out_rows", False) and rest.sampler.spans_epochs:
        _warn_once(
            "a predicate or filters leave out rows, so ranks may have different numbers of "
            "batches, and those with more would wait for the others forever: filter before "
            "writing, or train within torch.distributed.algorithms.join.Join"
        )


def warn_of_samples(rest: Rest, batch_size: int | None) -> None:
    """Warn where somebody makes batches of this rank's samples who may get more on others."""
    order, num_epochs = rest.options.order, rest.options.num_epochs
    if not rest.sampler.spans_epochs or num_epochs is None:
        return
    samples, longer = divmod(num_epochs * rest.sampler.num_samples, order.world_size)
    if longer and (
        batch_size is None or (samples % batch_size == 0 and rest.batching.num_workers < 2)
    ):
        _warn_once(
            f"some ranks read {samples} samples of {rest.options.dataset.url}, and others one "
            "more, so the batches that a plain DataLoader makes of them may be one more as well, "
            "for which the other ranks would wait forever: use a StreamingDataLoader, or "
            "DataLoader(dataset.as_batches(batch_size), batch_size=None)"
        )


def _warn_once(message: str) -> None:
    """Warn, unless the same was said before, but for numbers."""
    kind = "".join(letter for letter in message if not letter.isdigit())
    if kind not in _told:
        _told.add(kind)
        warn_user(message)


def _after_fork() -> None:
    global _ranks
    group = find_group()
    _ranks = Ranks(None if group is None else group.itself)


_told: set[str] = set()
_ranks = Ranks()
os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _ranks.finish())


def begin_pass(rest: Rest) -> Beginning | None:
    """Offer to the other ranks what this one begins; None if there is nobody to ask."""
    return _ranks.begin(rest)
