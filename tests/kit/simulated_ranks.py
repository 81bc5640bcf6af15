"""Ranks of a process group, simulated one after another in one process."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from mdstorm_backend.loaders import agreement


class Token:
    """Stands in for a process group."""


class SimulatedRanks:
    """Makes this process act as each rank in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Any, size: int = 2) -> None:
        self.patch, self.store, self.size = monkeypatch, store, size
        self.shown: list[set[str]] = [set() for _ in range(size)]
        self.began, self.num_groups = time.time(), 0
        self.make_group()

    def make_group(self) -> None:
        """Let the ranks be those of another process group, with the current store."""
        self.num_groups += 1
        self.groups = [Token() for _ in range(self.size)]
        self.ranks = [
            agreement.Ranks(group, rank, self.size, self.num_groups, lambda: self.store)
            for rank, group in enumerate(self.groups)
        ]

    def become(self, rank: int) -> None:
        """Continue as the given rank."""
        self.patch.setattr(agreement, "find_ranks", lambda: self.ranks[rank])
        self.patch.setattr(agreement, "shown", self.shown[rank])
        self.patch.setattr(agreement, "started", self.began)
        self.patch.setenv("RANK", str(rank))
        self.patch.setenv("WORLD_SIZE", str(self.size))

    def warnings_of(self, program: Callable[[int], object]) -> list[str]:
        """Run a program on each rank, and return the warnings."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for rank in range(self.size):
                self.become(rank)
                program(rank)
        return [f"{one.message}" for one in found]
