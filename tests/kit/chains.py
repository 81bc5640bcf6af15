"""Random chains of worlds that peek, save and resume, and read each row once per epoch."""

import json
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mdstorm_backend.errors import NoDataAvailableError


def pickled(loader: Any) -> Any:
    """Return a copy of a loader, as made by a process that receives it."""
    return pickle.loads(pickle.dumps(loader))  # noqa: S301


@dataclass
class Chain:
    """A random chain of worlds; `run` counts in `seen` how often each row was read.

    Attributes
    ----------
    make : callable
        Returns a loader for a rank, number of ranks and batch size.
    values : callable
        Returns the rows of a batch.
    changes_world : bool
        Whether any rank's state resumes on any number of ranks with any batch size.
    peeks : bool
        Whether ranks peek at a batch. Petastorm's readers cannot peek: the next iteration
        continues after that batch.
    ends_alone : bool
        Whether only the rank itself knows that it has reached its end. A peek after that end
        would end the pass, so ranks only peek before they load a state.
    copies : bool
        Whether loaders can be copied and pickled.
    again : callable
        Prepares a loader for its next pass.
    """

    seed: int
    make: Callable[[int, int, int], Any]
    values: Callable[[Any], Iterator[int] | list[int]]
    changes_world: bool = True
    peeks: bool = True
    ends_alone: bool = False
    copies: bool = False
    again: Callable[[Any], object] = lambda loader: None
    close: Callable[[Any], object] = lambda loader: None
    epochs: int = 0
    seen: Counter[int] = field(default_factory=Counter)
    steps: list[Any] = field(default_factory=list)

    def run(self) -> None:
        draw = self.draw = random.Random(self.seed)
        self.ranks, self.batch_size = draw.randint(1, 4), draw.randint(2, 9)
        self.loaders = self.made()
        for _ in range(draw.randint(1, 3)):
            done = self.epoch()
            for rank, loader in enumerate(self.loaders):
                if not done[rank]:
                    self.take(loader, None)
            self.epochs += 1
            if draw.random() < 0.5:
                self.resume([loader.state_dict() for loader in self.loaders])
            else:
                for loader in self.loaders:
                    self.again(loader)
        for loader in self.loaders:
            self.close(loader)

    def epoch(self) -> list[bool]:
        """Read some segments of an epoch, and return which ranks have finished it."""
        done = [False] * self.ranks
        for _ in range(self.draw.randint(0, 4)):
            self.peek()
            # A single batch that is left would be a peek, which does not count.
            batches = self.draw.choice([2, 3, 4, 5] if self.is_peeked else [0, 2, 3, 4, 5])
            self.steps.append(("take", batches))
            states = []
            for rank, loader in enumerate(self.loaders):
                if not done[rank]:
                    self.take(loader, batches)
                if self.draw.random() < 0.3:
                    loader.state_dict()
                states.append(loader.state_dict())
            # Before the first batch, the state may still be at the end of the previous epoch.
            done = [batches > 0 and state["mdstorm"]["finished"] for state in states]
            if any(done):  # `run` lets the other ranks finish the epoch
                for rank, loader in enumerate(self.loaders):
                    # A single batch is a peek, even if it is the last batch of a resumed epoch.
                    if not done[rank] or (batches == 1 and self.peeks):
                        loader.load_state_dict(states[rank])
                return done
            self.resume(states, copies=self.copies and batches != 1)
            done = [False] * self.ranks
        return done

    def take(self, loader: Any, batches: int | None) -> None:
        if batches == 0:
            return
        self.is_peeked, self.fresh = False, set()
        iterator = iter(loader)
        for batch in islice(iterator, batches):
            self.seen.update(self.values(batch))
        if hasattr(iterator, "close"):
            iterator.close()

    def peek(self, chance: float = 0.3) -> None:
        for rank, loader in enumerate(self.loaders):
            # Only the first iteration of a new or resumed loader can be a peek.
            if self.peeks and rank in self.fresh and self.draw.random() < chance:
                self.is_peeked = True
                self.fresh.remove(rank)
                self.steps.append(("peek", rank))
                iterator = iter(loader)
                next(iterator, None)
                iterator.close()

    def resume(self, states: list[Any], *, copies: bool = False) -> None:
        """Load states into existing loaders, or into new ones with a different number of ranks.

        With `copies`, loaders are sometimes replaced by copies, which resume where the loaders are.
        The copy of a loader after a single batch may begin before that batch, which was a peek.
        """
        if copies and self.draw.random() < 0.2:
            self.steps.append("copy")
            copied = [deepcopy, pickled]
            self.loaders = [self.draw.choice(copied)(loader) for loader in self.loaders]
            self.fresh = set() if self.ends_alone else set(range(self.ranks))
            self.is_peeked = False
            self.peek()
            return
        states = json.loads(json.dumps(states))
        before = self.ranks, self.batch_size
        is_new = self.draw.random() < 0.6
        if self.changes_world:
            states = [self.draw.choice(states)] * 4
            if is_new:
                self.ranks, self.batch_size = self.draw.randint(1, 4), self.draw.randint(2, 9)
        self.steps.append(("resume", is_new, self.ranks, self.batch_size))
        if is_new:
            for loader in self.loaders:
                self.close(loader)
            self.loaders = self.made()
        if self.draw.random() < 0.5:
            self.peek()
        try:
            for rank, loader in enumerate(self.loaders):
                loader.load_state_dict(states[rank])
                (self.fresh.discard if self.ends_alone else self.fresh.add)(rank)
        except NoDataAvailableError:  # fewer remaining rows than ranks
            self.ranks, self.batch_size = 1, before[1]
            self.loaders = self.made()
            self.loaders[0].load_state_dict(states[0])
        self.is_peeked = False
        self.peek()

    def made(self) -> list[Any]:
        self.fresh, self.is_peeked = set(range(self.ranks)), False
        return [self.make(rank, self.ranks, self.batch_size) for rank in range(self.ranks)]
