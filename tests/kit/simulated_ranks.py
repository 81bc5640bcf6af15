"""Ranks of a process group, simulated one after another in one process."""

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
        self.groups = [Token() for _ in range(size)]
        self.ranks = [agreement.Ranks() for _ in range(size)]

    def become(self, rank: int) -> None:
        """Continue as the given rank."""
        group = agreement.RankGroup(self.groups[rank], self.store, rank, self.size)
        self.patch.setattr(agreement, "find_group", lambda: group)
        self.patch.setattr(agreement, "this_process", self.ranks[rank])
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
