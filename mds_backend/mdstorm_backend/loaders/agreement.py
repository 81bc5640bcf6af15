"""Compare passes between ranks, without a collective.

If the process belongs to a group with one rank for each share, a pass that is more than a peek
*offers* its epoch, seed, batch size and so on to the other ranks, in the process group's store. An
offer is one `compare_set`, which is atomic and returns the offer of the rank that came first. A
second offer claims the rank's share of the rows. Differences by which rows are surely lost raise an
error before the batch that follows a peek is yielded; other differences warn.

Ranks run the same program, so they compare their n-th pass of the k-th loader of the same kind,
not counting peeks. The kind consists of the order, number of shares, columns and selection. Loaders
over the same `Epochs` count as one. Only passes in the main thread are compared, because passes in
other threads begin in any order.

A store may be slow, gone, or of an unknown kind, and none of that may affect training. So a daemon
thread makes the offers, and the pass waits at most half a second for the answer. After a failure,
ranks are no longer compared.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from functools import partial
from typing import Any

import numpy as np

from mdstorm_backend.base.checks import warn_user
from mdstorm_backend.base.threads import in_own_thread
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.consumer import Usage
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.segment import Segment

_logger = logging.getLogger(__name__)

#: Maximum number of passes to compare for each kind of loader; a program may begin one per step.
MOST_PASSES = 1_000
#: Seconds to wait for the store to answer.
PATIENCE = 0.5

#: How to fix a difference between ranks, by the name of the value they have to agree on.
_REMEDIES = {
    "dataset fingerprint": "open the same files on all ranks, pass the same version= of a table, "
    "or pickle one converter for all ranks",
    "batch size": "pass the same batch size on all ranks",
    "seed": "pass the same seed on all ranks, without adding the rank",
    "epoch number": "make the same loaders on all ranks and iterate equally often, call "
    "set_epoch(epoch) on all of them, or pass check_ranks=False to a loader of a single rank",
    "samples consumed": "load the same state on all ranks, or on none",
    "batches of the previous pass": "take the same number of batches of each pass on all ranks, or "
    "call set_epoch(epoch) on all of them before it",
    "NumPy version": "install the same packages on all ranks, because the orders depend on NumPy",
}

#: Values in the store from before this process started were written before the ranks were
#: restarted, since a group exists only once all of its processes have started.
started = time.time()

#: The warnings that were shown, without their digits.
shown: set[str] = set()


def _warn_once(message: str) -> None:
    """Warn, unless a message that differs only in its digits has been shown before."""
    kind = "".join(letter for letter in message if not letter.isdigit())
    if kind not in shown:
        shown.add(kind)
        warn_user(message)


def _default_group() -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.group.WORLD


def default_store() -> Any:
    """Return the store of the default group; PyTorch's function for it is private."""
    return sys.modules["torch.distributed"].distributed_c10d._get_default_store()


class Ranks:
    """The ranks of a process group: compares this process's passes with theirs.

    Neither the group nor its store is kept alive.

    Parameters
    ----------
    group : object
        The process group.
    rank, size : int
        This process's rank, and the number of ranks.
    number : int
        Number of the group among those of this process, from 1.
    find_store : callable
        Returns the group's store.
    """

    def __init__(
        self,
        group: object,
        rank: int,
        size: int,
        number: int = 1,
        find_store: Callable[[], Any] = default_store,
    ) -> None:
        self._group = weakref.ref(group)
        self.rank, self.size, self.number = rank, size, number
        self._find_store = find_store
        #: Whether a check has failed, after which no more checks are made.
        self._has_failed = False
        #: By kind of loader: the number of loaders and of passes that were compared.
        self._loaders: Counter[str] = Counter()
        self._passes: Counter[str] = Counter()
        #: The latest compared pass over an `Epochs`: its kind of loader, the numbers of the loader
        #: and of the pass, from 1, and the `Usage` that counts its batches.
        self._latest: weakref.WeakKeyDictionary[Epochs, tuple[str, int, int, Usage | None]]
        self._latest = weakref.WeakKeyDictionary()

    def are_of(self, group: object) -> bool:
        """Whether these are the ranks of `group`."""
        return self._group() is group

    def compare(self, segment: Segment, epochs: Epochs, usage: Usage | None) -> None:
        """Compare a pass with other ranks, and raise or warn about the differences.

        Parameters
        ----------
        segment : Segment
            The first segment of the pass.
        epochs : Epochs
            Identifies the pass's loader.
        usage : Usage or None
            Counts the pass's batches, to compare their number when the next pass is compared; None
            for a pass whose ranks may have different numbers of batches.

        Raises
        ------
        InvalidArgumentError
            If the ranks lose rows because of a difference.
        """
        try:
            ask = self._question(segment, epochs, usage)
            differences = [] if ask is None else _answer(ask)
        except Exception as error:  # training continues without the comparison
            self._fail(error)
            return
        for loses_rows, message in differences:
            if loses_rows:
                raise InvalidArgumentError(message)
            _warn_once(message)

    def _question(
        self, segment: Segment, epochs: Epochs, usage: Usage | None
    ) -> Callable[[], list[tuple[bool, str]]] | None:
        """Number a pass, and return a function that compares it; None if it is not compared."""
        # The store may still contain keys of a destroyed group.
        kind = f"mdstorm/{self.number}/{_kind(segment)}"
        kind_before, loader, number, before = self._latest.get(epochs, ("", 0, 0, None))
        if kind_before != kind:
            self._loaders[kind] += 1
            loader, number, before = self._loaders[kind], 0, None
        self._latest[epochs] = kind, loader, number + 1, usage
        self._passes[kind] += 1
        if self._has_failed or self._passes[kind] > MOST_PASSES:
            return None
        key = f"{kind}/{loader}/{number + 1}"
        offered, store = _offered(segment, before), self._find_store()
        return lambda: list(_differences(store, self.rank, segment, key, offered))

    def _fail(self, error: Exception) -> None:
        """Log a group's first failed check, after which no more checks are made."""
        if not self._has_failed:
            self._has_failed = True
            _logger.debug("Ranks are no longer compared: %r", error, exc_info=error)


def _answer(ask: Callable[[], Any]) -> Any:
    """Return the result of a function that a daemon thread calls.

    Raises
    ------
    TimeoutError
        If the store does not answer.
    """
    answer = in_own_thread(ask, "mdstorm-ranks")
    if not futures.wait([answer], PATIENCE).done:
        raise TimeoutError(f"the store did not answer within {PATIENCE} seconds")
    return answer.result()


def _differences(
    store: Any, rank: int, segment: Segment, key: str, offered: Mapping[str, Any]
) -> Iterator[tuple[bool, str]]:
    """Yield messages about differences from other ranks, and whether rows are surely lost."""
    _check_server(store)
    first = partial(_first, store)
    order, url, epoch = segment.options.order, segment.options.dataset.url, segment.position.epoch
    other, their_url, theirs = first(key, [rank, url, offered])
    where = "" if their_url == url else f"that of {their_url} "
    # Otherwise, the passes may be those of unrelated loaders.
    are_same_rows = all(
        theirs[name] == offered[name] for name in ("dataset fingerprint", "batch size")
    )
    for name, mine in offered.items():
        if mine == theirs[name] or None in (mine, theirs[name]):
            continue
        message = (
            f"rank {rank} begins epoch {epoch} of {url} with {name} {mine}, and rank "
            f"{other} {where}with {theirs[name]}, so ranks lose and repeat rows, now or after "
            f"a resume: {_REMEDIES[name]}. check_ranks=False turns this check off"
        )
        # A share that is a single range of rows depends neither on the seed nor on the epoch.
        is_decisive = name == "samples consumed" or (
            name in ("seed", "epoch number") and order.contiguous_share() is None
        )
        yield are_same_rows and is_decisive, message
    share = order.world.rank
    if (other := first(f"{key}/{share}", rank)) != rank:
        yield (
            False,
            f"ranks {other} and {rank} both read share {share} of {order.num_ranks} of {url} "
            f"in epoch {epoch}, so no rank reads another share: pass each rank's own number as "
            'cur_shard, or cur_shard="auto"',
        )


def _first(store: Any, key: str, value: Any) -> Any:
    """Offer a value and return the first rank's value; replace values from before a restart."""
    mine, expected = json.dumps([time.time(), value]), ""
    while True:
        found = store.compare_set(key, expected, mine)
        then, theirs = json.loads(found)
        if then >= started:
            return theirs
        expected = found.decode()


def _kind(segment: Segment) -> str:
    """Return a loader's kind as a string that does not depend on the rows in its dataset."""
    options, order = segment.options, segment.options.order
    settings = order.settings()
    settings.pop("weights", None)
    kind = {
        "order": order.name,
        "shares": order.num_ranks,
        "columns": options.columns,
        "splits": options.splits,
        **vars(options.conditions),
        **settings,
    }
    return json.dumps(kind, sort_keys=True)


def _offered(segment: Segment, before: Usage | None) -> dict[str, Any]:
    """Return the values of a pass that ranks have to agree on; None values are not compared."""
    order, position, plan = segment.options.order, segment.position, segment.plan
    # Ranks have the same position only if the plan numbers samples across all ranks.
    is_even = not plan.unequal_because
    is_shared = is_even or not position.consumed
    return {
        "dataset fingerprint": segment.options.dataset.fingerprint,
        "batch size": segment.options.batch_size,
        "seed": order.state_keys(position)["shuffle_seed"] if order.uses_seed else None,
        "epoch number": position.epoch if is_shared else None,
        "samples consumed": position.consumed if is_shared else None,
        "batches of the previous pass": before.batches if before is not None and is_even else None,
        "NumPy version": np.__version__,
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
        batch_size is None or (samples % batch_size == 0 and segment.options.num_workers < 2)
    ):
        _warn_once(
            f"some ranks read {samples} samples of {segment.options.dataset.url}, and others one "
            "more, so a plain DataLoader may yield one more batch on some ranks, which would then "
            "wait forever for the other ranks: use a StreamingDataLoader"
        )


#: The ranks of the latest process group that was found.
_latest: Ranks | None = None
#: The process group that this forked process has inherited, whose store it must not use.
_inherited: object = None


def find_ranks() -> Ranks | None:
    """Return the ranks of the default process group.

    None if there is no group, if it has a single rank, or if it was inherited through a fork.
    """
    global _latest
    group = _default_group()
    if group is None or group is _inherited:
        return None
    distributed = sys.modules["torch.distributed"]
    size = distributed.get_world_size()
    if size == 1:
        return None
    if _latest is None or not _latest.are_of(group):
        number = 1 if _latest is None else _latest.number + 1
        _latest = Ranks(group, distributed.get_rank(), size, number)
    return _latest


def _after_fork() -> None:
    global started, _latest, _inherited
    started, _latest, _inherited = time.time(), None, _default_group()


os.register_at_fork(after_in_child=_after_fork)


def is_compared(segment: Segment) -> bool:
    """Return whether a pass that begins is to be compared with other ranks.

    Warn of shares that no rank reads, and of ranks that may have unequal numbers of batches.
    """
    options, num_shares = segment.options, segment.options.order.num_ranks
    ranks = None if num_shares == 1 else find_ranks()
    if ranks is None:
        return False
    if num_shares > ranks.size:
        _warn_once(
            f"the rows of {options.dataset.url} are split into {num_shares} shares, but there are "
            f"{ranks.size} ranks, so no rank reads the other shares: pass "
            f'shard_count={ranks.size}, or cur_shard="auto"'
        )
    if options.leaves_out_rows and segment.plan.unequal_because:
        _warn_once(
            "a predicate or filters leave out rows, so ranks may have different numbers of "
            "batches, and ranks with more would wait for the others forever: pass the conditions "
            "as where=, with which all ranks have equal batches, or train within "
            "torch.distributed.algorithms.join.Join"
        )
    # If there are fewer shares than ranks, the program has several worlds, as with a device mesh
    # or parallel trials.
    is_main = threading.current_thread() is threading.main_thread()
    return options.check_ranks and num_shares == ranks.size and is_main


def compare_pass(segment: Segment, epochs: Epochs, usage: Usage | None = None) -> None:
    """Compare a pass with other ranks: see `Ranks.compare`."""
    if (ranks := find_ranks()) is not None:
        ranks.compare(segment, epochs, usage)
