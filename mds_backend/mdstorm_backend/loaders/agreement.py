"""Compare passes between ranks, without a collective.

If the process belongs to a group with one rank for each share, a pass that is more than a peek
*offers* its epoch, seed, batch size and so on to the other ranks, in the process group's store. An
offer is one `compare_set`, which is atomic and returns the offer of the rank that came first. A
second offer claims the rank's share of the rows. Differences by which rows are surely lost raise an
error before the batch that follows a peek is yielded; other differences warn.

Ranks run the same program, so they compare their n-th pass of the k-th loader of the same kind,
not counting peeks. The kind consists of the order, number of shares, columns, transform and
selection of rows. Loaders over the same `Epochs` count as one. Only passes in the main thread are
compared, because passes in other threads begin in any order.

A selection that no other rank has begun is compared with their n-th selection in loaders that are
otherwise of the same kind. If it is the first one, the ranks were given different rows. A later one
may also belong to a loader of this rank alone.

A store may be slow, gone, or of an unknown kind, and none of that may affect training. So a daemon
thread makes the offers, and the pass waits at most half a second for the answer. After a failure,
ranks are no longer compared.
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
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent import futures
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mdstorm_backend.base.checks import warn_user
from mdstorm_backend.base.pools import in_own_thread
from mdstorm_backend.datasets import numbers_hash
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.consumer import Usage
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.segment import Segment

_logger = logging.getLogger(__name__)

#: Maximum number of passes to compare for each kind of loader; a program may begin one per step.
MOST_PASSES = 1_000
#: Seconds to wait for the store to answer, and before the interpreter ends.
PATIENCE = 0.5
_PATIENCE_AT_EXIT = 5.0
#: Seconds to wait for a rank that may be about to begin the same selection; part of `PATIENCE`.
DELAY = 0.2

#: How to fix a difference between ranks, by the name of the value they have to agree on.
_REMEDIES = {
    "dataset fingerprint": "open the same files on all ranks, pass the same version= of a table, "
    "or pickle one converter for all ranks",
    "seed": "pass the same seed on all ranks, without adding the rank",
    "epoch number": "make the same loaders on all ranks and iterate equally often, call "
    "set_epoch(epoch) on all of them, or pass check_ranks=False to a loader of a single rank",
    "samples consumed": "load the same state on all ranks, or on none",
    "batches of the previous pass": "take the same number of batches of each pass on all ranks, or "
    "call set_epoch(epoch) on all of them before it",
    "NumPy version": "install the same packages on all ranks, because the orders depend on NumPy",
    "rows": "pass equal rows= and where= on all ranks, and the same seed to random generators",
}

#: What a difference leads to, if it is not that ranks read other rows than they should.
_CONSEQUENCES = {
    "batches of the previous pass": "a state of that pass loses or repeats rows when it is loaded",
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
        #: By kind of loader: the number of loaders that were compared.
        self._loaders: Counter[str] = Counter()
        #: By kind without the selection: the number of selections and of passes.
        self._selections: Counter[str] = Counter()
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
        alike, selection = _kind(segment)
        # The store may still contain keys of a destroyed group.
        alike = f"mdstorm/{self.number}/{alike}"
        kind = alike + json.dumps(selection)
        kind_before, loader, number, before = self._latest.get(epochs, ("", 0, 0, None))
        if kind_before != kind:
            self._loaders[kind] += 1
            loader, number, before = self._loaders[kind], 0, None
        self._latest[epochs] = kind, loader, number + 1, usage
        self._passes[alike] += 1
        is_new = (loader, number) == (1, 0)
        self._selections[alike] += is_new
        if self._has_failed or self._passes[alike] > MOST_PASSES:
            return None
        offers = [_Offer(f"{kind}/{loader}/{number + 1}", *_offered(segment, before))]
        if is_new:
            turn = self._selections[alike]
            chosen = _chosen(segment, selection)
            # A predicate may differ in a value that does not matter, such as the rank.
            decisive = chosen.keys() - {"predicate"} if turn == 1 else ()
            offers.append(_Offer(f"{alike}/{turn}", chosen, decisive))
        store = self._find_store()
        return lambda: list(_differences(store, self.rank, segment, *offers))

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
        # A thread in the store's C++ code would abort the process when the interpreter ends.
        atexit.register(futures.wait, [answer], _PATIENCE_AT_EXIT)
        raise TimeoutError(f"the store did not answer within {PATIENCE} seconds")
    return answer.result()


class _Offer(NamedTuple):
    """Values that the ranks have to agree on, by name; None values are not compared.

    Attributes
    ----------
    key : str
        Where the store holds the values of the rank that came first.
    values : mapping of str to value
        The values.
    decisive : collection of str
        The names of those by which the ranks surely lose rows, if they read the same data.
    """

    key: str
    values: Mapping[str, Any]
    decisive: Collection[str]


def _differences(
    store: Any, rank: int, segment: Segment, offer: _Offer, selection: _Offer | None = None
) -> Iterator[tuple[bool, str]]:
    """Yield messages about differences from other ranks, and whether rows are surely lost.

    Parameters
    ----------
    store : Store
        The store of the process group.
    rank : int
        This process's rank.
    segment : Segment
        The first segment of the pass.
    offer : _Offer
        The values of the pass.
    selection : _Offer, optional
        The values of its selection, to compare if no other rank has begun one like it.
    """
    _check_server(store)
    first, key = partial(_first, store), offer.key
    order, url, epoch = segment.options.order, segment.options.dataset.url, segment.position.epoch
    other, their_url, theirs = first(key, [rank, url, offer.values])
    if other == rank and selection is not None:
        offer = selection
        other, their_url, theirs = first(offer.key, [rank, url, offer.values])
        if theirs != offer.values and _is_awaited(store, f"{key}/{other}"):
            theirs = offer.values
    where = "" if their_url == url else f"that of {their_url} "
    # Otherwise, the passes may be those of unrelated loaders.
    are_same_rows = all(
        theirs[name] == offer.values[name] for name in ("dataset fingerprint", "batch size")
    )
    for name, mine in offer.values.items():
        if mine == theirs[name] or None in (mine, theirs[name]):
            continue
        remedy = _REMEDIES.get(name, f"pass the same {name} on all ranks")
        result = _CONSEQUENCES.get(name, "ranks lose and repeat rows, now or after a resume")
        message = (
            f"rank {rank} begins epoch {epoch} of {url} with {name} {mine}, and rank "
            f"{other} {where}with {theirs[name]}, so {result}: {remedy}. check_ranks=False turns "
            "this check off"
        )
        yield are_same_rows and name in offer.decisive, message
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


def _is_awaited(store: Any, key: str) -> bool:
    """Return whether a key is set, also by a rank that is slightly behind this one."""
    end = time.monotonic() + DELAY
    while not (is_set := store.check([key])) and time.monotonic() < end:  # `wait` prints timeouts
        time.sleep(DELAY / 20)
    return bool(is_set)


def _kind(segment: Segment) -> tuple[str, dict[str, Any]]:
    """Return a loader's kind without its selection of rows, and the selection.

    Neither depends on the rows in the dataset.
    """
    options, order = segment.options, segment.options.order
    settings, amounts = order.compared_settings()
    selection = {**vars(options.conditions), **amounts}
    kind = {
        "order": order.name,
        "shares": order.num_ranks,
        "columns": options.columns,
        "splits": options.splits,
        "transform": selection.pop("transform"),
        **settings,
    }
    return json.dumps(kind, sort_keys=True), selection


def _chosen(segment: Segment, selection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a selection that ranks have to agree on, the same for equal rows."""
    options, dataset = segment.options, segment.options.dataset
    rows = numbers_hash(dataset.stored_numbers(range(len(dataset))))
    return {
        "dataset fingerprint": options.source or dataset.all_rows.fingerprint,
        "batch size": options.batch_size,
        **{name: f"{value}" for name, value in selection.items()},
        "rows": f"{len(dataset)} (hash {rows})",
    }


def _offered(segment: Segment, before: Usage | None) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a pass that ranks have to agree on, and which of them are decisive."""
    order, position, plan = segment.options.order, segment.position, segment.plan
    # Ranks have the same position only if the plan numbers samples across all ranks.
    is_even = not plan.unequal_because
    is_shared = is_even or not position.consumed
    values = {
        "dataset fingerprint": segment.options.dataset.fingerprint,
        "batch size": segment.options.batch_size,
        "seed": order.state_keys(position)["shuffle_seed"] if order.uses_seed else None,
        "epoch number": position.epoch if is_shared else None,
        "samples consumed": position.consumed if is_shared else None,
        "batches of the previous pass": before.batches if before is not None and is_even else None,
        "NumPy version": np.__version__,
    }
    decisive = [] if order.has_fixed_share else ["seed", "epoch number"]
    return values, ["samples consumed", *decisive]


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
    if options.steps.leaves_out_rows and segment.plan.unequal_because:
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
