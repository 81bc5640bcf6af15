"""Detect ranks that begin different passes, without a collective and without blocking training.

`Pass.rests` and `Schedule.own_rests` call `begin_pass`, which returns a `Beginning` if the process
belongs to a group of several ranks. With the second batch of the pass, or at its end, the
`Beginning` *offers* the pass to the other ranks: its seed, batch size and place go into the store
of the process group. Before that, the pass may turn out to be a peek at one batch. An offer is one
`compare_set`, which is atomic and returns the offer of the rank that came first.

`Ranks`, one object per process, makes the offers in a daemon thread: a store may be slow, gone, or
of an unknown kind, and none of that may affect training. With the next batch, the training thread
raises or warns about the differences that were found.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from traceback import walk_stack
from typing import Any, NamedTuple

from mdstorm_backend.base.checks import is_ours, warn_user
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.state import selection_of

#: Largest number of epochs offered for one share: a program may begin an epoch in every step.
_MOST_EPOCHS = 1_000
#: Seconds for which the end of the process waits for pending offers.
_PATIENCE = 0.5

#: Values on which ranks have to agree, by their names in messages, and how to fix a difference.
_REMEDIES = {
    "seed": "give all ranks one seed, without adding the rank",
    "batch size": "give all ranks one batch size",
    "samples consumed": "load the same state on all ranks, or on none",
    "batches of the epoch before": "let all ranks take equally many batches of each epoch, or call "
    "set_epoch(epoch) on all of them before it",
    "epoch number": "make the same loaders on all ranks, or pass seed= and call set_epoch(epoch)",
}


class Group(NamedTuple):
    """The default process group, its store and size, and the rank of this process in it."""

    itself: Any
    store: Any
    rank: int
    size: int


def find_group() -> Group | None:
    """Return the default process group; None without one, for a single rank, or without a store."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    itself, size = distributed.group.WORLD, distributed.get_world_size()
    with suppress(Exception):  # the function is private, and a store may raise anything
        store = distributed.distributed_c10d._get_default_store()
        return Group(itself, store, distributed.get_rank(), size) if size > 1 else None
    return None


@dataclass(eq=False)
class Beginning:
    """A pass begun by this rank, one of several; `rest` is None once the pass is offered."""

    rest: Rest | None
    batches: int = 0

    def count(self) -> None:
        """Count a batch, offer the pass with the second one, and report any differences found."""
        self.batches += 1
        if self.batches == 2:
            self.offer()
        if _ranks.found:
            _ranks.tell()

    def offer(self) -> None:
        """Offer the pass to the other ranks, once: it is more than a peek."""
        rest, self.rest = self.rest, None
        with suppress(Exception):  # whatever is wrong with the group, training continues
            if rest is not None and (group := _ranks.group) is not None:
                _ranks.offer(group, self, rest)


class Ranks:
    """The passes that this process has begun, and the thread that compares them with other ranks.

    Parameters
    ----------
    inherited : object, optional
        The process group that a forked process inherits, whose store it must not use.
    """

    def __init__(self, inherited: Any = None) -> None:
        self._inherited = inherited
        self._queue: SimpleQueue[Sequence[Callable[[], object]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._numbered: Any = lambda: None
        self._number = 0
        #: For each kind of pass, the batch size of the first loader, and the passes of each epoch.
        self._begun: dict[str, tuple[int, dict[int, list[Beginning]]]] = {}
        #: For each kind of pass and place in the program, the number of passes begun there.
        self._begun_at: Counter[str] = Counter()
        #: Messages to report, and whether each is an error rather than a warning.
        self.found: deque[tuple[bool, str]] = deque()
        #: A group exists only once all of its processes have started: older values in its store
        #: were written before ranks were restarted.
        self._since = time.time()

    @property
    def group(self) -> Group | None:
        """The process group, unless this process inherited it by a fork."""
        group = find_group()
        return None if group is None or group.itself is self._inherited else group

    def begin(self, rest: Rest) -> Beginning | None:
        """Report the differences found so far, and warn of shares that cannot work out.

        Return the `Beginning` of the pass if it is to be compared with those of other ranks.
        """
        self.tell()
        group = self.group
        if group is None or rest.sampler.num_ranks == 1:
            return None
        options, num_shares = rest.options, rest.sampler.num_ranks
        if num_shares > group.size:
            _warn_once(
                f"the rows of {options.dataset.url} are split into {num_shares} shares, and there "
                f"are {group.size} ranks, so some shares are nobody's: pass "
                f'shard_count={group.size}, or cur_shard="auto"'
            )
        if options.leaves_out_rows and rest.sampler.spans_epochs:
            _warn_once(
                "a predicate or filters leave out rows, so ranks may have different numbers of "
                "batches, and those with more would wait for the others forever: filter before "
                "writing, or train within torch.distributed.algorithms.join.Join"
            )
        return Beginning(rest) if options.check_ranks else None

    def offer(self, group: Group, begun: Beginning, rest: Rest) -> None:
        """Have the thread offer a pass, and compare it with the offers of other ranks."""
        self._count_group(group)
        options, epoch, size = rest.options, rest.place.epoch, rest.batching.batch_size
        what = [rest.sampler.num_ranks, selection_of(options), options.order.name]
        name = f"mdstorm/{self._number}/{json.dumps(what, sort_keys=True)}"
        asks = []
        if (at := self._count_at(name)) is not None:
            offered: dict[str, Any] = {"epoch number": epoch, "batch size": size}
            asks.append(partial(self._compare, group, at, rest, offered))
        first_size, epochs = self._begun.setdefault(name, (size, {}))
        # A single rank may have another loader, such as one for validation.
        if size == first_size and len(epochs) < _MOST_EPOCHS:
            passes = epochs.setdefault(epoch, [])
            passes.append(begun)
            if len(passes) == 1:  # ranks may read an epoch with several loaders, one after another
                offered = _offered(rest, epochs.get(epoch - (options.num_epochs or 1), []))
                key = f"{name}/{epoch}"
                asks.append(partial(self._compare, group, key, rest, offered))
                asks.append(partial(self._take_share, group, key, rest))
        self._ask(*asks)

    def _count_at(self, name: str) -> str | None:
        """Return a key for the n-th pass begun at this place in the program; None for no key.

        Ranks that run the same program have the same n-th pass there, whatever a single rank does
        elsewhere. Passes of other threads than the main one get no key: they begin in any order.
        """
        if threading.current_thread() is not threading.main_thread():
            return None
        # Generators do not count: a single rank may have a progress bar around its loader. Nor do
        # our own calls, which differ between a batch and the end.
        calls = [
            (frame.f_code.co_name, frame.f_lasti)
            for frame, _ in walk_stack(sys._getframe())
            if not frame.f_code.co_flags & inspect.CO_GENERATOR
            and not is_ours(frame.f_globals.get("__name__", ""))
        ]
        at = f"{name}/at/{zlib.crc32(repr(calls).encode())}"
        self._begun_at[at] += 1
        return f"{at}/{self._begun_at[at]}" if self._begun_at[at] <= _MOST_EPOCHS else None

    def _count_group(self, group: Group) -> None:
        """Number a new group: the keys of a group that was destroyed may still be in the store."""
        if self._numbered() is not group.itself:
            self._numbered = weakref.ref(group.itself)
            self._number += 1
            self._begun, self._begun_at = {}, Counter()

    def _compare(self, group: Group, key: str, rest: Rest, offered: Mapping[str, Any]) -> None:
        """Compare the values of this rank with those of the first rank, and record differences."""
        order, url, epoch = rest.options.order, rest.options.dataset.url, rest.place.epoch
        other, theirs = self._first(group, key, [group.rank, offered])
        for name, mine in offered.items() if other != group.rank else ():
            if mine == theirs[name] or None in (mine, theirs[name]):
                continue
            message = (
                f"rank {group.rank} begins epoch {epoch} of {url} with {name} {mine}, and rank "
                f"{other} with {theirs[name]}, so ranks lose and repeat rows, now or after a "
                f"resume: {_REMEDIES[name]}. check_ranks=False turns this check off"
            )
            self.found.append((name == "seed" and order.deals_by_seed, message))

    def _take_share(self, group: Group, key: str, rest: Rest) -> None:
        """Claim this rank's share of the rows, and record if another rank claimed it before."""
        share, url = rest.options.order.world.rank, rest.options.dataset.url
        if rest.sampler.num_ranks != group.size:
            return
        if (taken := self._first(group, f"{key}/{share}", group.rank)) != group.rank:
            message = (
                f"ranks {taken} and {group.rank} both read share {share} of {group.size} of {url} "
                f"in epoch {rest.place.epoch}, so another share is nobody's: pass each rank's own "
                'number as cur_shard, or cur_shard="auto"'
            )
            self.found.append((False, message))

    def _first(self, group: Group, key: str, value: Any) -> Any:
        """Offer a value, return the first rank's, and replace values older than the group."""
        mine, expected = json.dumps([time.time(), value]), ""
        while True:
            found = group.store.compare_set(key, expected, mine)
            then, theirs = json.loads(found)
            if then >= self._since:
                return theirs
            expected = found.decode()

    def _ask(self, *asks: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mdstorm-ranks", daemon=True)
            self._thread.start()
        if asks:
            self._queue.put(asks)

    def _run(self) -> None:
        while asks := self._queue.get():
            with suppress(Exception):
                for ask in asks:
                    ask()
            del asks, ask  # they refer to the group, which ends when the program releases it

    def finish(self) -> None:
        """Wait briefly for pending offers as the process ends, and report what they found."""
        if self._thread is not None:
            self._queue.put(())
            self._thread.join(_PATIENCE)
        self.tell()

    def tell(self) -> None:
        """Raise or warn about the differences found so far.

        Raises
        ------
        InvalidArgumentError
            If ranks lose rows because their seeds differ.
        """
        while self.found:
            is_error, message = self.found.popleft()
            if is_error:
                raise InvalidArgumentError(message)
            _warn_once(message)


def _offered(rest: Rest, before: list[Beginning]) -> dict[str, Any]:
    order, place = rest.options.order, rest.place
    batches = max((one.batches for one in before), default=None)
    return {
        "seed": order.state_keys(place)["shuffle_seed"] if order.shuffles_anything else None,
        "batch size": rest.batching.batch_size,
        "samples consumed": place.consumed,
        "batches of the epoch before": batches if rest.sampler.has_equal_batches else None,
    }


def warn_of_samples(rest: Rest, batch_size: int | None) -> None:
    """Warn if a plain ``DataLoader`` may make one batch more on some ranks than on others."""
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
            "for which the other ranks would wait forever: use a StreamingDataLoader"
        )


def _warn_once(message: str) -> None:
    """Warn, unless a message that differs only in its digits was shown before."""
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
    """Return the `Beginning` of a pass; None for a single rank, or if ranks are not compared."""
    return _ranks.begin(rest)
