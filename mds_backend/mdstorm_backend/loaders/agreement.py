"""Compare passes between ranks, without a collective and without blocking training.

`Pass.planned` and `SampleIteration` call `begin_pass`, which returns a `Beginning` if the process
belongs to a group with one rank for each share. Once the pass is more than a peek, the `Beginning`
*offers* its
seed, batch size, position and so on to the other ranks, in the process group's store. An offer is
one `compare_set`, which is atomic and returns the offer of the rank that came first. A second offer
claims the rank's share of the rows.

Ranks run the same program, so they compare their n-th counted pass of the k-th loader of the same
kind to count. The kind consists of the order, number of shares, columns and selection. `Numbering`
keeps k and n. Only passes in the main thread are compared, because passes in other threads begin in
any order.

`Ranks`, of which each process has one object, makes the offers in a daemon thread, because a store
may be slow, gone, or of an unknown kind, and none of that may affect training. At the next batch or
the end of a pass, the training thread raises or warns about the differences that were found.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from mdstorm_backend.base.checks import warn_user
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.consumer import Consumer
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import selection_of

_logger = logging.getLogger(__name__)

#: Maximum number of passes to compare for each kind of loader; a program may begin one per step.
MOST_PASSES = 1_000
#: Seconds to wait for pending offers at the end of a pass or process.
PATIENCE = 0.5

#: How to fix a difference between ranks, by the name of the value they have to agree on.
_REMEDIES = {
    "dataset fingerprint": "open the same files on all ranks, pass the same version= of a table, "
    "or pickle one converter for all ranks",
    "seed": "pass the same seed on all ranks, without adding the rank",
    "batch size": "pass the same batch size on all ranks",
    "epoch number": "make the same loaders on all ranks and iterate equally often, call "
    "set_epoch(epoch) on all of them, or pass check_ranks=False to a loader of a single rank",
    "samples consumed": "load the same state on all ranks, or on none",
    "batches of the previous pass": "take the same number of batches of each pass on all ranks, or "
    "call set_epoch(epoch) on all of them before it",
}


class RankGroup(NamedTuple):
    """The default process group, its store and size, and this process's rank in it."""

    itself: Any
    store: Any
    rank: int
    size: int


def find_group() -> RankGroup | None:
    """Return the default process group, or None if there is none or it has a single rank.

    Raises
    ------
    Exception
        If the group's store cannot be found, since PyTorch's function for it is private.
    """
    if (itself := _default_group()) is None:
        return None
    distributed = sys.modules["torch.distributed"]
    size = distributed.get_world_size()
    if size == 1:
        return None
    store = distributed.distributed_c10d._get_default_store()
    return RankGroup(itself, store, distributed.get_rank(), size)


def _default_group() -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.group.WORLD


@dataclass(eq=False)
class Numbering:
    """The numbers of a loader and of its latest pass, by which ranks find the passes to compare.

    Attributes
    ----------
    kind : str
        The process group and the kind of the loader; empty before its first pass counts.
    loader, passes : int
        The numbers, from 1.
    last : Beginning or None
        The last pass that counted.
    """

    kind: str = ""
    loader: int = 0
    passes: int = 0
    last: Beginning | None = None


@dataclass(eq=False)
class Beginning:
    """A pass on this rank, to compare with other ranks. Once offered, it has no `segment`.

    A pass is offered at the first batch that is surely more than a peek.
    """

    segment: Segment | None
    numbering: Numbering
    consumer: Consumer
    batches: int = 0

    def __post_init__(self) -> None:
        #: Number of batches that may be taken in a peek.
        self._most_peeked = self.consumer.peek + self.consumer.skipped
        if self.consumer.count_unused is not None:
            self._most_peeked += 1  # is fetched ahead

    def count(self) -> None:
        """Count a batch, and report any differences found."""
        if _ranks.found:
            _ranks.report()
        self.batches += 1
        if self.batches == self._most_peeked + 1:
            self.offer()

    def offer(self) -> None:
        """Offer the pass to the other ranks for comparison, unless it has been offered before."""
        segment, self.segment = self.segment, None
        if segment is not None:
            _ranks.offer(self, segment)

    def leave(self) -> None:
        """Wait briefly for the store's answer, if the pass was offered.

        The program may destroy the process group next, and PyTorch prints the C++ stack of a
        request whose store is gone.
        """
        if self.segment is None:
            _ranks.wait()

    def end(self) -> None:
        """Offer the pass at its end, wait briefly for the store, and report any differences."""
        if self.consumer.has_used_end:
            self.offer()
        self.leave()
        _ranks.report()


class Ranks:
    """Numbers this process's passes, and compares them with other ranks' passes in a thread.

    Parameters
    ----------
    inherited : object, optional
        The process group that a forked process has inherited and whose store it must not use.
    """

    def __init__(self, inherited: Any = None) -> None:
        self._inherited = inherited
        self._requests: SimpleQueue[tuple[Callable[[], object], threading.Event] | None]
        self._requests = SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Set when the store has answered the latest request.
        self._answered = threading.Event()
        self._answered.set()
        self._numbered: Any = lambda: None
        self._number = 0
        #: Whether a check has failed in this group, after which no more checks are made.
        self._has_failed = False
        #: By kind of loader: the number of loaders, and of their passes, not counting peeks.
        self._loaders: Counter[str] = Counter()
        self._passes: Counter[str] = Counter()
        #: Messages to report, and whether each is an error rather than a warning.
        self.found: deque[tuple[bool, str]] = deque()
        #: Values in the store from before this time were written before the ranks were restarted,
        #: since a group exists only once all of its processes have started.
        self._since = time.time()

    @property
    def group(self) -> RankGroup | None:
        """The process group; None if it cannot be used, or was inherited through a fork."""
        try:
            group = find_group()
        except Exception as error:  # PyTorch may change its private function
            self._fail(error)
            return None
        return None if group is None or group.itself is self._inherited else group

    def begin(self, segment: Segment, numbering: Numbering, consumer: Consumer) -> Beginning | None:
        """Report the differences found so far, and warn of unread shares and uneven batch counts.

        Return the `Beginning` of the pass if the pass is to be compared with other ranks.
        """
        self.report()
        options, num_shares = segment.options, segment.plan.num_ranks
        group = None if num_shares == 1 else self.group
        if group is None:
            return None
        if num_shares > group.size:
            _warn_once(
                f"the rows of {options.dataset.url} are split into {num_shares} shares, but there "
                f"are {group.size} ranks, so no rank reads the other shares: pass "
                f'shard_count={group.size}, or cur_shard="auto"'
            )
        if options.leaves_out_rows and not segment.plan.has_equal_batches:
            _warn_once(
                "a predicate or filters leave out rows, so ranks may have different numbers of "
                "batches, and ranks with more would wait for the others forever: filter before "
                "writing, or train within torch.distributed.algorithms.join.Join"
            )
        # If there are fewer shares than ranks, the program has several worlds, as with a device
        # mesh or parallel trials.
        is_main = threading.current_thread() is threading.main_thread()
        if options.check_ranks and num_shares == group.size and is_main:
            return Beginning(segment, numbering, consumer)
        return None

    def offer(self, begun: Beginning, segment: Segment) -> None:
        """Have the thread offer a pass and compare it with the other ranks' passes."""
        if (group := self.group) is not None:
            try:
                self._offer(group, begun, segment)
            except Exception as error:  # training continues without the comparison
                self._fail(error)

    def _offer(self, group: RankGroup, begun: Beginning, segment: Segment) -> None:
        self._count_group(group)
        numbering = begun.numbering
        kind = f"mdstorm/{self._number}/{_kind(segment)}"
        if numbering.kind != kind:
            self._loaders[kind] += 1
            numbering.kind, numbering.loader = kind, self._loaders[kind]
            numbering.passes, numbering.last = 0, None
        numbering.passes += 1
        self._passes[kind] += 1
        offered = _offered(segment, numbering.last)
        numbering.last = begun
        if self._passes[kind] <= MOST_PASSES and not self._has_failed:
            key = f"{kind}/{numbering.loader}/{numbering.passes}"
            self._request(partial(self._check, group, key, segment, offered))

    def _count_group(self, group: RankGroup) -> None:
        """Number a new group, since the store may still contain keys of a destroyed group."""
        if self._numbered() is not group.itself:
            self._numbered = weakref.ref(group.itself)
            self._number += 1
            self._has_failed = False

    def _check(
        self, group: RankGroup, key: str, segment: Segment, offered: Mapping[str, Any]
    ) -> None:
        _check_server(group.store)
        self._compare(group, key, segment, offered)
        self._claim_share(group, key, segment)

    def _compare(
        self, group: RankGroup, key: str, segment: Segment, offered: Mapping[str, Any]
    ) -> None:
        """Compare this rank's values with the first rank's, and record differences."""
        order, url, epoch = (
            segment.options.order,
            segment.options.dataset.url,
            segment.position.epoch,
        )
        other, their_url, theirs = self._first(group, key, [group.rank, url, offered])
        if other == group.rank:
            return
        where = "" if their_url == url else f"that of {their_url} "
        for name, mine in offered.items():
            if mine == theirs[name] or None in (mine, theirs[name]):
                continue
            message = (
                f"rank {group.rank} begins epoch {epoch} of {url} with {name} {mine}, and rank "
                f"{other} {where}with {theirs[name]}, so ranks lose and repeat rows, now or after "
                f"a resume: {_REMEDIES[name]}. check_ranks=False turns this check off"
            )
            # A share that is a single range of rows does not depend on the seed.
            loses_rows = name == "seed" and order.contiguous_share() is None
            self.found.append((loses_rows, message))

    def _claim_share(self, group: RankGroup, key: str, segment: Segment) -> None:
        """Claim this rank's share of the rows, and record whether another rank has claimed it."""
        share, url = segment.options.order.world.rank, segment.options.dataset.url
        if (other := self._first(group, f"{key}/{share}", group.rank)) != group.rank:
            message = (
                f"ranks {other} and {group.rank} both read share {share} of {group.size} of {url} "
                f"in epoch {segment.position.epoch}, so no rank reads another share: pass each "
                'rank\'s own number as cur_shard, or cur_shard="auto"'
            )
            self.found.append((False, message))

    def _first(self, group: RankGroup, key: str, value: Any) -> Any:
        """Offer a value and return the first rank's value; replace values older than the group."""
        mine, expected = json.dumps([time.time(), value]), ""
        while True:
            found = group.store.compare_set(key, expected, mine)
            then, theirs = json.loads(found)
            if then >= self._since:
                return theirs
            expected = found.decode()

    def _request(self, request: Callable[[], object]) -> None:
        """Have the thread make a request to the store."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mdstorm-ranks", daemon=True)
            self._thread.start()
        self._answered = threading.Event()
        self._requests.put((request, self._answered))

    def _run(self) -> None:
        while (item := self._requests.get()) is not None:
            request, answered = item
            try:
                request()
            except Exception as error:  # each kind of store raises its own errors
                self._fail(error)
            del item, request  # references would keep the group alive after the program releases it
            answered.set()

    def _fail(self, error: Exception) -> None:
        """Log a group's first failed check, after which no more checks are made."""
        if not self._has_failed:
            self._has_failed = True
            _logger.debug("Ranks are no longer compared: %r", error, exc_info=error)

    def wait(self) -> None:
        """Wait briefly for the store to answer, and give up on a store that does not."""
        if not (self._has_failed or self._answered.wait(PATIENCE)):
            self._fail(TimeoutError(f"the store did not answer within {PATIENCE} seconds"))

    def finish(self) -> None:
        """Wait briefly for pending offers while the process is exiting, and report the results."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join(PATIENCE)
        self.report()

    def report(self) -> None:
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


def _kind(segment: Segment) -> str:
    """Return a loader's kind as a string that does not depend on the rows in its dataset."""
    options = segment.options
    selection = {**selection_of(options), "columns": options.columns, "splits": options.splits}
    settings = {key: value for key, value in selection["settings"].items() if key != "weights"}
    kind = {"order": options.order.name, "shares": segment.plan.num_ranks, **selection, **settings}
    for key in ("dataset", "settings", "num_epochs"):
        kind.pop(key, None)
    return json.dumps(kind, sort_keys=True)


def _offered(segment: Segment, before: Beginning | None) -> dict[str, Any]:
    """Return the values of a pass that ranks have to agree on; None values are not compared."""
    order, position, plan = segment.options.order, segment.position, segment.plan
    is_even = before is not None and plan.has_equal_batches
    # Ranks have the same position only if the plan numbers samples across all ranks.
    is_shared = plan.has_equal_batches or not position.consumed
    return {
        "dataset fingerprint": segment.options.dataset.fingerprint,
        "seed": order.state_keys(position)["shuffle_seed"] if order.uses_seed else None,
        "batch size": segment.batching.batch_size,
        "epoch number": position.epoch if is_shared else None,
        "samples consumed": position.consumed if is_shared else None,
        "batches of the previous pass": before.batches if before is not None and is_even else None,
    }


def _check_server(store: Any) -> None:
    """Raise OSError if the server of a TCPStore is gone.

    The server ends with the group of the rank that hosts it. PyTorch would print the C++ stack of a
    request to a server that is gone.
    """
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    if hasattr(store, "host") and hasattr(store, "port"):
        socket.create_connection((store.host, store.port), PATIENCE).close()


def warn_of_samples(segment: Segment, batch_size: int | None) -> None:
    """Warn if a plain ``DataLoader`` may yield one more batch on some ranks than on others."""
    order, num_epochs = segment.options.order, segment.options.num_epochs
    if num_epochs is None or order.rows_of_rank(segment.plan.num_samples) is None:
        return
    samples, longer = divmod(num_epochs * segment.plan.num_samples, order.world_size)
    if longer and (
        batch_size is None or (samples % batch_size == 0 and segment.batching.num_workers < 2)
    ):
        _warn_once(
            f"some ranks read {samples} samples of {segment.options.dataset.url}, and others one "
            "more, so a plain DataLoader may yield one more batch on some ranks, which would then "
            "wait forever for the other ranks: use a StreamingDataLoader"
        )


def _warn_once(message: str) -> None:
    """Warn, unless a message that differs only in its digits has been shown before."""
    kind = "".join(letter for letter in message if not letter.isdigit())
    if kind not in _warned:
        _warned.add(kind)
        warn_user(message)


def _after_fork() -> None:
    global _ranks
    _ranks = Ranks(inherited=_default_group())


_warned: set[str] = set()
_ranks = Ranks()
os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _ranks.finish())


def begin_pass(segment: Segment, numbering: Numbering, consumer: Consumer) -> Beginning | None:
    """Return the `Beginning` of a pass, or None if the pass is not compared with other ranks."""
    return _ranks.begin(segment, numbering, consumer)
