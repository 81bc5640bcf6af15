"""Limit and order the concurrent requests to a store: `Pace`, `Turn` and `RequestTurns`.

A `Pace` measures the link to the store, and limits the requests and bytes under way. `RequestTurns`
make requests wait until there is room, and give the first turn to the work that needs its bytes
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from math import inf

#: Bytes to request at a time before anything is measured, and the minimum. An idle link also gets
#: the minimum until its first bytes arrive, all for the work that needs its bytes first, which
#: shares the link, and a store that answers one request after another, with what is requested at
#: the same time.
_FIRST, _FEWEST = 64 << 20, 16 << 20
#: Further bytes to request at a time for each byte that has arrived on an idle link. Many small
#: requests that are sent at the same time also end at the same time, and the link would idle until
#: the next ones are answered. With a smaller number, the last ranges of a large shard would be
#: requested late, together with ranges of the next one.
_GROWTH = 8
#: Bytes requested at a time, relative to the bandwidth-delay product: the surplus keeps the link
#: from idling.
_GAIN = 2.0
#: Weights that earlier measurements keep after a round, so that network changes are noticed.
_RATE_LEFT, _LEAST_LEFT = 0.9, 0.99
#: Number of responses after which a round of small objects ends.
_LONGEST_ROUND = 256


class Pace:
    """Limits the bytes requested from a store at a time to twice the capacity of its link.

    With few requests a link idles while each waits for its first byte. Many requests only queue,
    and a store that receives too many refuses them. The right number is measured, not configured.

    By Little's law, the capacity of a link is ``bytes per second`` times ``least seconds of a
    request``, from sending it to the last byte. While the link is not full, twice the measured
    capacity is more than was under way, so the next round requests more; once it is full, the
    number stays. If the store refuses a request, the number of requests at a time is halved; it
    grows by about one for each round of responses.

    Parameters
    ----------
    connections : int
        Maximum number of requests at a time: the connections of the client.
    is_given : bool
        Whether the user set this number. If so, it is used as long as the store responds, and bytes
        are only limited while the first ones arrive.

    Attributes
    ----------
    bytes : float
        Bytes to request at a time.
    requests : float
        Requests at a time, of any size.
    resumes : float
        Time at which requests may be sent again, on the event loop's clock.
    refusal : str
        The store's latest refusal; "" if it never refused.
    has_answered : bool
        Whether the store has answered any request with content.
    is_full : bool
        Whether requests had to wait in this round; rates measure the link only if they did.
    """

    def __init__(self, connections: int, *, is_given: bool = False) -> None:
        self.requests = self._connections = float(connections)
        self.bytes = inf if is_given else _FIRST
        self.resumes, self.refusal, self.has_answered = 0.0, "", False
        self._halved = -inf
        self._least, self._rate = inf, 0.0
        self._begin_round(0.0)

    def _begin_round(self, now: float) -> None:
        self._since, self._answered = now, 0
        #: Seconds and bytes of each answer.
        self._answers: list[tuple[float, int]] = []
        self.is_full = False

    def answered(self, begun: float, now: float, size: int) -> None:
        """Record that `size` bytes, requested at time `begun`, have arrived."""
        self.requests = min(self.requests + 1 / self.requests, self._connections)
        if not self._answers:  # leave out the time when nothing was requested
            self._since = max(self._since, begun)
        self._answers.append((now - begun, size))
        self._answered += size
        if self._answered >= self.bytes or len(self._answers) >= _LONGEST_ROUND:
            if self.is_full and self.bytes < inf:
                self._measure(now)
            self._begin_round(now)

    def _measure(self, now: float) -> None:
        mean = self._answered / len(self._answers)
        # Ranges shorter than most arrive sooner only because they are short.
        least = min(seconds for seconds, size in self._answers if size >= mean)
        self._least = min(self._least / _LEAST_LEFT, least)
        self._rate = max(self._rate * _RATE_LEFT, self._answered / (now - self._since))
        self.bytes = max(_GAIN * self._rate * self._least, _FEWEST)

    def refused(self, begun: float, now: float, wait: float, text: str) -> None:
        """Record that the store refused a request sent at `begun`; pause for `wait` seconds.

        Refusals of requests that were under way at the same time count once.
        """
        self.resumes, self.refusal = max(self.resumes, now + wait), text
        if begun >= self._halved:
            self._halved = now
            self.requests = max(self.requests / 2, 1.0)


class Turn:
    """The turn of one request; bytes that have arrived no longer count towards the limit.

    If they did, requests that are sent together and share the link would also end together, and the
    link would idle until the next ones are answered.

    Parameters
    ----------
    turns : RequestTurns
        Gives the turn.
    size : int
        Bytes to request.

    Attributes
    ----------
    begun : asyncio.Future
        Done once the request may be sent.
    missing : int
        Bytes that have not arrived.
    """

    def __init__(self, turns: RequestTurns, size: int) -> None:
        self._turns, self.missing = turns, size
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def arrived(self, size: int) -> None:
        """Record that bytes of the request have arrived."""
        self.missing -= size
        self._turns.arrived(size)


class RequestTurns:
    """Lets the requests of one event loop take turns, in the order of the work that needs them.

    Parameters
    ----------
    pace : Pace
        Limits the requests at a time.

    Attributes
    ----------
    refusing : set of str
        The buckets that have refused signed URLs.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.refusing: set[str] = set()
        self._taken = self._bytes = 0
        #: Bytes that have arrived since the link was last idle, and the work that it then began.
        self._arrived, self._first_work = 0, 0
        self._waiting: list[tuple[int, int, int, Turn]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, work: int, start: int, size: int) -> AsyncIterator[Turn]:
        """Wait for a turn to read `size` bytes of an object from `start`; hold it in the block."""
        turn = Turn(self, size)
        heappush(self._waiting, (work, start, next(self._count), turn))
        self._give()
        try:
            await turn.begun
            yield turn
        finally:
            if not turn.begun.cancelled():
                self._taken -= 1
                self._bytes -= turn.missing
                if not self._taken:
                    self._arrived = 0
            self._give()

    def arrived(self, size: int) -> None:
        """Let other requests start in place of bytes that have arrived."""
        self._bytes -= size
        self._arrived += size
        self._give()

    def _give(self) -> None:
        while self._waiting:
            work, *_, turn = self._waiting[0]
            if not turn.begun.done():  # turns of failed downloads are cancelled
                if not self._taken:
                    self._first_work = work
                if not self._has_room(work, turn.missing):
                    # Right after idling, requests may wait even though the link has room.
                    self.pace.is_full |= self._arrived > 0 and self._fills(turn.missing)
                    return
                turn.begun.set_result(None)
                self._taken += 1
                self._bytes += turn.missing
            heappop(self._waiting)

    def _has_room(self, work: int, size: int) -> bool:
        """Whether a request for `size` bytes may be sent; a single one always may."""
        most_at_first = _FEWEST if work <= self._first_work else 0
        most_after_idle = most_at_first + _GROWTH * self._arrived
        has_room = not self._fills(size) and self._bytes + size <= most_after_idle
        return has_room or not self._taken

    def _fills(self, size: int) -> bool:
        """Whether a request for `size` bytes would be more than the pace allows."""
        pace = self.pace
        return self._taken + 1 > pace.requests or self._bytes + size > pace.bytes
