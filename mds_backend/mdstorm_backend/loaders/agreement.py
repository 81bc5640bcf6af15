"""Tell ranks that begin different things, without a collective and without waiting.

A rank that begins a pass offers what it begins in the store of its process group, by one
`compare_set`, which is atomic and returns what the first rank has offered. A daemon thread asks: a
store may be slow, gone, or of an unknown kind, and none of that may touch training. What it finds
is said with the next batch.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import sys
import threading
import time
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from traceback import walk_stack
from typing import Any, NamedTuple, TypeAlias

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
    "epoch number": "make the same loaders on all ranks, or pass seed= and call set_epoch(epoch)",
}


class Group(NamedTuple):
    """The default process group: itself, its store, and this process's rank in it.

    No rank has offered anything before `since`: what is older is of ranks that were started again.
    """

    itself: Any
    store: Any
    rank: int
    size: int
    since: float = 0


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


#: What is to be said, and whether it is an error.
Found: TypeAlias = deque[tuple[bool, str]]


@dataclass(eq=False)
class Beginning:
    """A pass that this rank has begun among others.

    Attributes
    ----------
    found : deque of (bool, str)
        What is to be said, of this pass and of others.
    batches : int
        Batches of it that were delivered.
    forget : callable
        Lets the epoch count as not begun.
    """

    found: Found
    batches: int = 0
    forget: Callable[[], object] = lambda: None

    def count(self) -> None:
        """Count a batch, and say what was found: see `tell`."""
        self.batches += 1
        if self.found:
            tell(self.found)


def tell(found: Found) -> None:
    """Say what was found.

    Raises
    ------
    InvalidArgumentError
        If ranks lose rows.
    """
    while found:
        is_error, message = found.popleft()
        if is_error:
            raise InvalidArgumentError(message)
        _warn_once(message)


class Ranks:
    """What this process has begun, and the thread that asks.

    Parameters
    ----------
    inherited : object, optional
        A process group that a fork has of its parent, whose store it must not use.
    """

    def __init__(self, inherited: Any = None) -> None:
        self._inherited = inherited
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._group: Any = lambda: None
        self._number = 0
        #: For each name, the batch size of the first loader, and the beginnings of each epoch.
        self._begun: dict[str, tuple[int, dict[int, list[Beginning]]]] = {}
        #: For each name and place in the program, how many passes were begun there.
        self._begun_at: Counter[str] = Counter()
        self.found: Found = deque()
        #: Before a group is there, all of its processes have to be.
        self._since = time.time()

    def begin(self, rest: Rest) -> Beginning | None:
        """Offer what is begun; None if there is nobody to ask."""
        tell(self.found)
        group = find_group()
        if group is None or group.itself is self._inherited or rest.sampler.num_ranks == 1:
            return None
        _warn_of_shares(rest, group.size)
        with suppress(Exception):  # whatever is wrong with the group, training goes on
            here = group._replace(since=self._since)
            return self._offer(here, rest) if rest.options.check_ranks else None
        return None

    def _offer(self, group: Group, rest: Rest) -> Beginning | None:
        self._count_group(group)
        options, epoch, size = rest.options, rest.place.epoch, rest.batching.batch_size
        what = [rest.sampler.num_ranks, selection_of(options), options.order.name]
        name = f"mdstorm/{self._number}/{json.dumps(what, sort_keys=True)}"
        begun = Beginning(self.found)
        if (at := self._count_at(name)) is not None:
            offered: dict[str, Any] = {"epoch number": epoch, "batch size": size}
            self._ask(partial(_compare, group, at, rest, offered, self.found))
        first_size, epochs = self._begun.setdefault(name, (size, {}))
        if size != first_size or len(epochs) >= _MOST_EPOCHS:
            return begun  # one rank alone may have a loader for something else, as for validation
        beginnings = epochs.setdefault(epoch, [])
        begun.forget = lambda: beginnings.remove(begun)
        beginnings.append(begun)
        if len(beginnings) == 1:  # ranks may have several loaders, one after the other
            before = epochs.get(epoch - (options.num_epochs or 1), [])
            key, offered = f"{name}/{epoch}", _offered(rest, before)
            self._ask(partial(_compare, group, key, rest, offered, self.found))
            self._ask(partial(_take_share, group, key, rest, self.found))
        return begun

    def _count_at(self, name: str) -> str | None:
        """Return a key for the n-th pass that is begun at this place in the program.

        Ranks that run one program have the same n-th pass there, whatever one of them alone does
        elsewhere. In threads, passes may begin in any order.
        """
        if threading.current_thread() is not threading.main_thread():
            return None
        at = f"{name}/at/{_place_in_program()}"
        self._begun_at[at] += 1
        return f"{at}/{self._begun_at[at]}" if self._begun_at[at] <= _MOST_EPOCHS else None

    def _count_group(self, group: Group) -> None:
        """Number the groups: after one was destroyed, its keys may still be in the store."""
        if self._group() is not group.itself:
            self._group = weakref.ref(group.itself)
            self._number += 1
            self._begun, self._begun_at = {}, Counter()

    def _ask(self, ask: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mdstorm-ranks", daemon=True)
            self._thread.start()
        self._queue.put(ask)

    def _run(self) -> None:
        while (ask := self._queue.get()) is not None:
            with suppress(Exception):
                ask()
            ask = None  # which has the group: it ends when the program lets go of it

    def finish(self) -> None:
        """Wait for a moment until everything was asked, as the process ends, and say the rest."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_PATIENCE)
        tell(self.found)


def _offered(rest: Rest, before: list[Beginning]) -> dict[str, Any]:
    order, place = rest.options.order, rest.place
    batches = max((one.batches for one in before), default=None)
    return {
        "seed": order.state_keys(place)["shuffle_seed"] if order.shuffles_anything else None,
        "batch size": rest.batching.batch_size,
        "samples consumed": place.consumed,
        "batches of the epoch before": batches if rest.sampler.has_equal_batches else None,
    }


def _place_in_program() -> int:
    """Return a number for the calls that are under way, the same on all ranks of one program.

    Generators do not count: one rank alone may have a progress bar around its loader.
    """
    frames = (frame for frame, _ in walk_stack(sys._getframe()))
    calls = [
        (frame.f_code.co_name, frame.f_lasti)
        for frame in frames
        if not frame.f_code.co_flags & inspect.CO_GENERATOR
    ]
    return zlib.crc32(repr(calls).encode())


def _offer(group: Group, key: str, value: Any) -> Any:
    """Return what the first rank has offered, in place of what is older than the group."""
    mine, expected = json.dumps([time.time(), value]), ""
    while True:
        found = group.store.compare_set(key, expected, mine)
        then, theirs = json.loads(found)
        if then >= group.since:
            return theirs
        expected = found.decode()


def _compare(group: Group, key: str, rest: Rest, offered: Mapping[str, Any], found: Found) -> None:
    """Ask what the first rank has offered, and note where this one differs."""
    order, url, epoch = rest.options.order, rest.options.dataset.url, rest.place.epoch
    other, theirs = _offer(group, key, [group.rank, offered])
    for name, mine in offered.items() if other != group.rank else ():
        if mine == theirs[name] or None in (mine, theirs[name]):
            continue
        message = (
            f"rank {group.rank} begins epoch {epoch} of {url} with {name} {mine}, and rank {other} "
            f"with {theirs[name]}, so ranks lose and repeat rows, now or after a resume: "
            f"{_REMEDIES[name]}. check_ranks=False turns this check off"
        )
        found.append((name == "seed" and order.deals_by_seed, message))


def _take_share(group: Group, key: str, rest: Rest, found: Found) -> None:
    """Ask whether another rank has taken the share of this one, and note that."""
    share, url, epoch = rest.options.order.world.rank, rest.options.dataset.url, rest.place.epoch
    if (
        rest.sampler.num_ranks == group.size
        and (taken := _offer(group, f"{key}/{share}", group.rank)) != group.rank
    ):
        message = (
            f"ranks {taken} and {group.rank} both read share {share} of {group.size} of {url} "
            f"in epoch {epoch}, so another share is nobody's: pass each rank's own number as "
            'cur_shard, or cur_shard="auto"'
        )
        found.append((False, message))


def _warn_of_shares(rest: Rest, num_ranks: int) -> None:
    options, num_shares = rest.options, rest.sampler.num_ranks
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
