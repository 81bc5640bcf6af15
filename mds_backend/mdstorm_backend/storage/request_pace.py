"""How much a store is asked for at a time, and which request comes next.

Few requests leave a link idle while each waits for its first byte; many only queue, and a store
that is asked too often refuses. Nobody has to say how many: it follows from what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from math import inf

#: Bytes that are asked for at a time before anything is measured, and at least.
_FIRST, _FEWEST = 64 << 20, 16 << 20
#: How many times as many as a link holds: as much again waits, so that it is never idle.
_GAIN = 2.0
#: What a round leaves of what was measured before, so that a change of the network is noticed.
_RATE_LEFT, _LEAST_LEFT = 0.9, 0.99
#: Answers after which a round of small objects is over.
_LONGEST_ROUND = 256


class Pace:
    """How much to ask a store for at a time: what its link holds, by Little's law, twice.

    A link holds ``bytes per second`` times ``least seconds of a request``, from asking to the last
    byte. While it is not full, twice what it is found to hold is more than was under way, and the
    next round has more; when it is full, the number stays. A store that refuses halves the requests
    at a time, of which one more is allowed for every round that it answers.

    Parameters
    ----------
    connections : int
        Requests at a time, at most: as many as the client has connections.
    is_given : bool
        Whether the user said so: then there are as many, as long as the store answers.

    Attributes
    ----------
    bytes : float
        Bytes to ask for at a time.
    requests : float
        Requests at a time, whatever they ask for.
    resumes : float
        When requests may be sent again.
    refusal : str
        What the store said when it refused last; "" if it never did.
    is_full : bool
        Whether more was to be asked for than that: only then are rates those of the link.
    """

    def __init__(self, connections: int, *, is_given: bool = False) -> None:
        self.requests = self._connections = float(connections)
        self.bytes = inf if is_given else _FIRST
        self.resumes, self.refusal = 0.0, ""
        self._halved = -inf
        self._least, self._rate = inf, 0.0
        self._begin_round(0.0)

    def _begin_round(self, now: float) -> None:
        self._since, self._answered = now, 0
        #: Seconds and bytes of each answer.
        self._answers: list[tuple[float, int]] = []
        self.is_full = False

    def answered(self, begun: float, now: float, size: int) -> None:
        """Note that `size` bytes, asked for at `begun`, are there."""
        self.requests = min(self.requests + 1 / self.requests, self._connections)
        if not self._answers:  # without the time in which nothing was asked for
            self._since = max(self._since, begun)
        self._answers.append((now - begun, size))
        self._answered += size
        if self._answered >= self.bytes or len(self._answers) >= _LONGEST_ROUND:
            if self.is_full and self.bytes < inf:
                self._measure(now)
            self._begin_round(now)

    def _measure(self, now: float) -> None:
        mean = self._answered / len(self._answers)
        # Shorter ranges than most are there sooner for that alone.
        least = min(seconds for seconds, size in self._answers if size >= mean)
        self._least = min(self._least / _LEAST_LEFT, least)
        self._rate = max(self._rate * _RATE_LEFT, self._answered / (now - self._since))
        self.bytes = max(_GAIN * self._rate * self._least, _FEWEST)

    def refused(self, begun: float, now: float, wait: float, text: str) -> None:
        """Note that the store refused what was asked for at `begun`, for `wait` seconds.

        Refusals of requests that were under way together count once.
        """
        self.resumes, self.refusal = max(self.resumes, now + wait), text
        if begun >= self._halved:
            self._halved = now
            self.requests = max(self.requests / 2, 1.0)


class Turns:
    """Lets requests take turns in the order of the work that needs them. Of one event loop.

    Parameters
    ----------
    pace : Pace
        How many of them at a time.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._taken = self._bytes = 0
        self._waiting: list[tuple[int, int, int, int, asyncio.Future[None]]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, work: int, start: int, size: int) -> AsyncIterator[None]:
        """Wait for a turn, and keep it: for the range from `start` of an object."""
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (work, start, next(self._count), size, turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._taken -= 1
                self._bytes -= size
            self._give()

    def _give(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0][-2:]
            if not turn.done():  # those of downloads that failed are cancelled
                if not self._has_room(size):
                    self.pace.is_full = True
                    return
                turn.set_result(None)
                self._taken += 1
                self._bytes += size
            heappop(self._waiting)

    def _has_room(self, size: int) -> bool:
        """Whether a request for so many bytes may be sent; one may always be under way."""
        pace = self.pace
        return not self._taken or (
            self._taken + 1 <= pace.requests and self._bytes + size <= pace.bytes
        )
