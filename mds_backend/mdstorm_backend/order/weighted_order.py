"""`WeightedOrder`: an order that draws each row as often, on average, as its weight states.

An epoch consists of draws: see `mdstorm_backend.order.draws`. Ranks read lanes of draws, whose
visits and windows are shuffled, and states count draws, as an `ExactOrder` does with rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.checks import suggests_fields
from mdstorm_backend.errors import DatasetChangedError
from mdstorm_backend.order.chunk import Chunk, Numbers
from mdstorm_backend.order.draws import Draws
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.exact_plan import ExactPlan
from mdstorm_backend.order.plan import Batching, Plan, Position
from mdstorm_backend.order.weighting import RowWeights, WeighedRows, Weighting
from mdstorm_backend.order.world import World

#: Bytes of stored rows in a window, if rows are shuffled and no window is given, and most rows:
#: more would hardly reduce repeated rows in a batch, and delay the first one.
_WINDOW_BYTES = 256 << 20
_MOST_IN_WINDOW = 1 << 20


@suggests_fields
@dataclass(frozen=True)
class WeightedOrder(ExactOrder):
    """The order in which a rank reads rows that are drawn by weights.

    Attributes
    ----------
    weighting : Weighting
        How often each row is drawn.
    draws : Draws or None
        The draws of each epoch, once the data are known.
    """

    weighting: Weighting = Weighting()  # noqa: RUF009  # frozen
    draws: Draws | None = field(default=None, repr=False, compare=False)

    name = "weighted"
    state_versions = range(6, 7)
    reads_parts = has_fixed_share = False

    @classmethod
    def of_state(cls, state: Mapping[str, Any], world: World, batch_size: int) -> WeightedOrder:
        """Return the order in which a state was taken, for a rank of `world`."""
        settings = dict(state["mdstorm"]["settings"])
        given = {name: settings.pop(name, None) for name in Weighting().settings}
        ours = {**state["mdstorm"], "settings": settings}
        order = super().of_state({**state, "mdstorm": ours}, world, batch_size)
        assert isinstance(order, cls)
        return replace(order, weighting=Weighting.of_settings(given))

    def weighted(self, weighting: Weighting) -> WeightedOrder:
        """Return the same order with other weights."""
        return replace(self, weighting=weighting, draws=None)

    def of_data(self, rows: WeighedRows) -> WeightedOrder:
        """Return the order with the draws of a dataset's rows.

        If shards are shuffled without a window, it is one with 256 MiB of rows, or a million.
        """
        if self.draws is not None and self.draws.fingerprint == rows.fingerprint:
            return self
        order = self._drawing(self.weighting.weights_of(rows), rows.bounds, rows.fingerprint)
        if self.shuffles or not self.shuffle_shards:
            return order
        window = _WINDOW_BYTES * int(rows.bounds[-1]) // max(rows.nbytes, 1)
        return replace(order, window=min(max(window, 1), _MOST_IN_WINDOW))

    def _drawing(
        self, weights: RowWeights | None, bounds: Numbers, fingerprint: str
    ) -> WeightedOrder:
        count = int(bounds[-1])
        size = (self.weighting.epoch_size or count) if count else 0
        return replace(self, draws=Draws(weights, bounds, size, self.shuffle_shards, fingerprint))

    def plan(self, batching: Batching, bounds: Numbers, start: Position, url: str) -> Plan:
        """Return a plan that numbers draws, also if functions may drop some of their rows."""
        draws = self.draws
        if draws is None:
            assert self.weighting.column is None, "of_data() has not been called"
            return self._drawing(None, bounds, "").plan(batching, bounds, start, url)
        plan = super().plan(batching._replace(cut="numbered"), bounds, start, url)
        assert isinstance(plan, ExactPlan)
        how: Any = {"batching": batching, "start": start}
        return WeightedPlan(plan.order, bounds, draws.size, draws.identity, url, **how)

    def chunks(
        self, bounds: Numbers, rows: range, epoch: int, lane: int, used: range
    ) -> Iterator[Chunk]:
        """Yield the rows of a lane's draws at the positions `used`."""
        assert self.seed, "resolved() has not been called"
        assert self.draws is not None, "of_data() has not been called"
        draws = self.draws.of_epoch(self.seed, epoch)
        for chunk in super().chunks(draws.bounds, rows, epoch, lane, used):
            yield from draws.drawn(chunk)

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine an epoch's samples."""
        return {**super().settings(), **self.weighting.settings}

    def compared_settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings that ranks compare, and what determines how often a row is drawn.

        The window may be determined by the data.
        """
        settings = super().settings()
        weights = "" if self.draws is None else self.draws.identity
        drawn = {"window": settings.pop("window"), "hash of weights": weights}
        return settings, {**self.weighting.settings, **drawn}

    @property
    def uses_seed(self) -> bool:
        """Whether a seed has an effect: always, as it determines which rows are drawn."""
        return True

    @property
    def sequence(self) -> str:
        """A short description, such as ``weighted order, rows shuffled, seed 7, balance='x'``."""
        return f"{super().sequence}, {self.weighting.argument}"

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return how many draws this rank reads in an epoch."""
        return super().rows_of_rank(self.weighting.epoch_size or num_rows)


@dataclass(frozen=True, eq=False)
class WeightedPlan(ExactPlan):
    """An `ExactPlan` over draws, whose states identify the weights.

    Attributes
    ----------
    size : int
        Number of draws in an epoch.
    drawn : str
        Identifies the weights.
    url : str
        URL of the dataset, for messages.
    """

    size: int
    drawn: str
    url: str

    @cached_property
    def num_samples(self) -> int:
        """Number of draws in an epoch, over all ranks."""
        return self.size

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return what identifies the weights."""
        return {**super().state_keys(position), "drawn": self.drawn}

    def resumed(self, ours: Mapping[str, Any]) -> Position:
        """Return where a state resumes, after checking that it was taken with the same weights."""
        if ours.get("drawn") != self.drawn:
            raise DatasetChangedError(
                f"the column from which rows of {self.url} are weighted has other values than when "
                "the state was taken, so the state does not determine which rows are left: restore "
                "the values, or begin the epoch again without the state",
                url=self.url,
            )
        return super().resumed(ours)
