"""`ReaderOptions`: which dataset to read and how, in values that pickle, and what is told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.display import Described, Description
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.loaders.nulls import NullPolicy
from mdstorm_backend.order import ExactOrder, World, find_world
from mdstorm_backend.read import ImageDecoder, Output, SampleSource, Transform
from mdstorm_backend.read.pieces import Keep
from mdstorm_backend.read.reader import BLOCK_ROWS

#: Rows of a block that holds images.
_IMAGES_AT_A_TIME = 64

_logger = logging.getLogger(__name__)


@cache
def tell_of_endless(url: str) -> None:
    """Log, once in this process, that a reading which never ends has passed its first epoch."""
    _logger.warning(
        "The first epoch over %s is over, and with num_epochs=None the loop never ends: break out "
        "of it after some steps, in Keras by steps_per_epoch, or pass num_epochs=1 for one epoch",
        url,
    )


@dataclass(frozen=True)
class ReaderOptions:
    """How to read a dataset.

    Attributes
    ----------
    dataset : SampleSource
        What to read.
    order : ExactOrder or ElasticShare
        The order, with a fixed seed. Its share of the rows may be that of this process when a pass
        begins: see `in_world`.
    columns : tuple of str or None
        The columns to read, in this order; None for all.
    num_epochs : int or None
        Number of passes over the data; None means endless.
    transform : Transform, optional
        Called with the rows that are read of each shard.
    slices : bool
        Whether to call it with slices of these rows, in the exact order: see `PieceReader`.
    images : ImageDecoder, optional
        Decodes images. A transform that changes their columns has to be made by its `before`;
        images of others are decoded after the transform.
    fill_nulls : mapping of str to value
        For each column, the value that replaces nulls, before the transform.
    null_masks : tuple of str
        Columns for which a boolean column that marks nulls is added.
    outputs : tuple of Output
        What a batch holds of the `delivered` columns: columns, and matrices of them; by default all
        columns.
    keep : callable, optional
        Keeps what the transform returns, in the exact order: see `PieceReader`.
    workers, prefetch : int
        Number of threads that read ahead, and of blocks that may be ready.
    predownload : int or None
        In the elastic order, the number of samples whose shards are opened ahead of use. For None,
        see `samples_ahead`.
    first_epoch : callable
        Says with which epoch the first pass begins, when that is asked for. It pickles.
    on_pass : callable, optional
        Called in this process when a pass begins, or the state of one is loaded, with the epoch
        with which it began. It may return a function that takes that back. It pickles.
    selection : mapping of str to str, optional
        What states know of ``filters``, ``predicate`` and ``transform``, each as text; by default
        the class of the transform.
    check_ranks : bool
        Whether to ask the other ranks of a process group whether they begin the same.
    tells_of_endless : bool
        Whether passes without an end say so when their second epoch begins.
    """

    dataset: SampleSource
    order: ExactOrder | ElasticShare
    columns: tuple[str, ...] | None = None
    num_epochs: int | None = 1
    transform: Transform | None = None
    slices: bool = False
    images: ImageDecoder | None = None
    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] = ()
    outputs: tuple[Output, ...] = ()
    keep: Keep | None = None
    workers: int = 2
    prefetch: int = 4
    predownload: int | None = None
    first_epoch: Callable[[], int] = int
    on_pass: Callable[[int], Callable[[], None] | None] | None = None
    selection: Mapping[str, str] | None = None
    check_ranks: bool = True
    tells_of_endless: bool = True

    @property
    def drops_rows(self) -> bool:
        """Whether rows are read in parts of shards, of which any number of rows may become."""
        if self.transform is None:
            return False
        return self.keep is not None or not getattr(self.transform, "keeps_rows", False)

    @property
    def leaves_out_rows(self) -> bool:
        """Whether filters or a predicate choose among the rows."""
        return bool(getattr(self.transform, "leaves_out_rows", False))

    @property
    def calls_on_slices(self) -> bool:
        """Whether a function of many rows leaves out rows only if it wants to: no filter does."""
        return self.drops_rows and not self.leaves_out_rows

    def in_world(self, world: World | None = None) -> ReaderOptions:
        """Return the same with a share that is known: if it follows the world, this process's.

        Parameters
        ----------
        world : World, optional
            The world; by default as it is now.
        """
        if not self.order.follows_world:
            return self
        return replace(self, order=self.order.share_of(world or find_world()))

    def note_pass(self, first_epoch: int) -> Callable[[], None] | None:
        """Call `on_pass`, and return what takes that back."""
        return None if self.on_pass is None else self.on_pass(first_epoch)

    @cached_property
    def schema(self) -> Schema:
        """The columns that are read, as they are stored."""
        return self.dataset.schema.select(self.dataset.select(self.columns))

    @cached_property
    def nulls(self) -> NullPolicy:
        """What happens to nulls."""
        return NullPolicy(self.schema, self.fill_nulls, self.null_masks)

    @property
    def delivered(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return tuple(self.transform.columns) if self.transform else self.nulls.columns

    def column(self, name: str) -> Column | None:
        """The stored column behind a delivered one; None if a transform or a mask has made it.

        A column whose nulls are filled has none.
        """
        if self.transform is None or name in getattr(self.transform, "unchanged", ()):
            return self._columns.get(name)
        return None

    @property
    def null_checked(self) -> list[Column]:
        """Stored columns whose nulls are certain to be delivered, if they have any.

        Filters may be there to leave out the rows with nulls. Those of images are refused already.
        """
        if self.leaves_out_rows:
            return []
        columns = [column for name in self.delivered if (column := self.column(name)) is not None]
        if self.images is not None:
            self.images.check_nulls(columns)
        return columns

    @cached_property
    def _columns(self) -> dict[str, Column]:
        decoded = () if self.images is None else self.images.columns
        columns = self.schema.with_columns(decoded)
        return {column.name: self.nulls.afterwards(column) for column in columns}

    @property
    def shown(self) -> list[tuple[str, str]]:
        """What becomes of images, for descriptions: names and values."""
        return [] if self.images is None else [("decode", f"{self.images}")]

    def read_arguments(self, block_rows: int | None = None) -> dict[str, Any]:
        """Return what readers in any order are told."""
        nulls_stay = not self.fill_nulls and not self.null_masks
        return {
            "transform": self.transform,
            "prepare": None if nulls_stay else self.nulls,
            "exact_nulls": not nulls_stay,
            "images": self.images and self.images.after(self.transform),
            "outputs": self.outputs,
            "workers": self.workers,
            "prefetch": self.prefetch,
            "block_rows": block_rows or self._block_rows,
        }

    @property
    def _block_rows(self) -> int:
        if self.images is not None and self.images.size is None:
            return 1  # one batch, whose images have one shape
        return _IMAGES_AT_A_TIME if self.has_images else BLOCK_ROWS

    @cached_property
    def has_images(self) -> bool:
        """Whether images are read, which take far more memory than they do in their shards."""
        if self.images is not None:
            return True
        chosen = self.dataset.schema.names if self.columns is None else self.columns
        columns = (self.dataset.schema.get(name) for name in chosen)
        return any(column is not None and column.is_image for column in columns)


def in_order(
    found: Description,
    order: ExactOrder | ElasticShare,
    num_rows: int | None = None,
    further: Iterable[tuple[str, str]] = (),
    delivers: Callable[[str], bool] = lambda name: True,
) -> Description:
    """Return a description of data with the order in which they are read.

    Parameters
    ----------
    found : Description
        What is read.
    order : ExactOrder or ElasticShare
        The order, and the share of this rank.
    num_rows : int, optional
        Rows of an epoch over all ranks, if they are known.
    further : iterable of (str, str)
        Further facts: names and values.
    delivers : callable
        Whether a column is delivered: the others are not shown.
    """
    further = list(further)
    sequence, share = order.sequence, _share(order, num_rows)
    line = [*found.line, sequence, *([share] if share else [])]
    facts = [*found.facts, ("order", sequence), ("share", share or "all rows"), *further]
    line += [f"{name}={value}" for name, value in further]
    return replace(found, line=line, facts=facts, rows=[r for r in found.rows if delivers(r[0])])


def describe_data(source: object, *, full: bool) -> Description:
    """Describe what is read, whatever it is."""
    if isinstance(source, Described):
        return source._mdstorm_description(full=full)
    return Description([repr(getattr(source, "url", source))])


def _share(order: ExactOrder | ElasticShare, num_rows: int | None) -> str:
    """Return the share of this rank; empty if it has everything."""
    if order.follows_world:
        try:
            order = order.share_of(find_world())
        except InvalidArgumentError:
            return "a share of a world that is not known"
    if order.world_size == 1:
        return ""
    rank = f"rank {order.world.rank} of {order.world_size}"
    rows = None if num_rows is None else order.rows_of_rank(num_rows)
    return rank if rows is None else f"{rank}: {rows:,} rows"
