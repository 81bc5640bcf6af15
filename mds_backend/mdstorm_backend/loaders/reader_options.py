"""`ReaderOptions`: which dataset to read and how, as picklable values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.checks import make_scalars_plain
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.loaders.consumer import Usage
from mdstorm_backend.order import (
    Batching,
    Order,
    Plan,
    Position,
    StreamShape,
    World,
    find_world,
)
from mdstorm_backend.order.plan import Cut
from mdstorm_backend.read import (
    Output,
    Reading,
    Steps,
    reader,
    refill,
)

#: Number of samples that ``DataLoader`` workers read at a time if no batch size is given.
_SAMPLES_AT_A_TIME = 1024
#: Rows per block of images.
_IMAGES_AT_A_TIME = 64
#: Rows whose files are read together, if no batch size is given.
_FILES_AT_A_TIME = 64
#: Bytes of samples whose shards are opened ahead of use, if opening a shard requires no network.
_BYTES_AHEAD = 256 << 20


@dataclass(frozen=True)
class Conditions:
    """What selects and changes the rows of a dataset, as JSON values; a state compares each field.

    A field that an older state does not have counts as its default.

    Attributes
    ----------
    filters, predicate, transform : str, optional
        Descriptions of what was passed.
    rows : str, optional
        A hash of the numbers of the chosen rows.
    """

    filters: str | None = None
    predicate: str | None = None
    transform: str | None = None
    rows: str | None = None


@dataclass(frozen=True)
class ReaderOptions:
    """How to read a dataset, and how to make batches of its rows.

    Attributes
    ----------
    dataset : SampleDataset
        The dataset to read.
    order : Order
        The order, with a fixed seed. Its share of the rows may follow the world, and is then
        determined when a pass begins: see `in_world`. An order that needs streams and has none
        reads the dataset as a single one.
    batch_size : int
        Number of rows in a batch.
    drop_last : bool
        Whether to drop batches that are not full.
    num_workers : int
        Number of worker processes that read; 0 to read in the loader's own process.
    by_shard : bool
        Whether a batch is the rank's part of one shard, of any size. Only the exact order has such
        batches; in others, and for the state, `batch_size` is the size of the largest batch.
    largest : int or None
        Number of rows after which a batch also ends, with `by_shard`; None for no such number.
    columns : tuple of str or None
        The columns to read, in this order; None for all.
    num_epochs : int or None
        Number of passes over the data; None means endless.
    steps : Steps
        What is done to the rows until they are batches.
    slices : bool
        Whether to call functions with slices of shards, in the exact order: see `Refill`. With
        files, a transform is always called with slices.
    check_ranks
        See `mdstorm_backend.loaders.arguments`.
    outputs : tuple of Output
        The columns of a batch, and matrices made from several columns; by default all of
        `output_columns`.
    keep : callable, optional
        Caches the rows that functions return, in the exact order: see `Refill`.
    workers, prefetch : int
        Number of threads that read ahead, and number of blocks that may be ready.
    predownload : int or None
        In the elastic order, the number of samples whose shards are opened ahead of use. For None,
        see `samples_ahead`.
    first : callable
        Returns the first iteration, before it begins. Must be picklable.
    on_pass : callable, optional
        Called in this process with a dataset's `Epochs` when a pass begins or its state is loaded.
        Must be picklable.
    conditions : Conditions
        What selects and changes the rows, for states.
    source : str, optional
        Fingerprint of the data of which `dataset` has those shards that may match the conditions;
        by default, `dataset` has all shards.
    splits : tuple of str
        The ``split`` of each stream; ranks compare passes over the same splits.
    """

    dataset: SampleDataset
    order: Order
    batch_size: int = 1
    drop_last: bool = False
    num_workers: int = 0
    by_shard: bool = False
    largest: int | None = None
    columns: Sequence[str] | None = None
    num_epochs: int | None = 1
    steps: Steps = field(default_factory=Steps)
    slices: bool = False
    outputs: tuple[Output, ...] = ()
    keep: refill.Keep | None = None
    workers: int = 2
    prefetch: int = 4
    predownload: int | None = None
    first: Callable[[], Usage] = Usage
    on_pass: Callable[[Any], None] | None = None
    conditions: Conditions = Conditions()
    source: str | None = None
    check_ranks: bool = True
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_scalars_plain(self)
        columns = None if self.columns is None else tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        dataset, is_chosen = self.dataset, self.dataset.chosen is not None
        order = self.order.over([StreamShape(dataset.shard_sizes)], chosen=is_chosen)
        object.__setattr__(self, "order", order.of_data(dataset))

    @property
    def drops_rows(self) -> bool:
        """Whether functions may change the number of rows, or their results are cached."""
        return self.keep is not None or not self.steps.keeps_rows

    @property
    def calls_functions(self) -> bool:
        """Whether functions are called for the rows, or their results are cached."""
        return self.keep is not None or self.steps.calls_functions

    @property
    def batching(self) -> Batching:
        """How the rank's samples are cut into batches."""
        cut: Cut = "as stored" if self.by_shard else "numbered"
        if self.drops_rows:
            # Ranks can have equal numbers of batches if only the transform's function drops rows,
            # rather than a filter or predicate.
            leaves_out = self.steps.leaves_out_rows
            cut = "as returned" if self.by_shard or leaves_out else "as stored"
        parts = max(self.num_workers, 1)
        return Batching(
            self.batch_size,
            cut,
            self.by_shard,
            self.drop_last,
            self.num_epochs,
            parts,
            self.largest,
        )

    def plan(self, start: Position) -> Plan:
        """Return this rank's plan from a position onward; its share of the rows must be known."""
        assert not self.order.follows_world, "in_world() has not been called"
        return self.order.plan(self.batching, self.dataset.bounds, start, self.dataset.url)

    @property
    def reads_all_rows(self) -> bool:
        """Whether all stored rows are read, and with them the nulls that are counted."""
        return self.dataset.chosen is None and not self.steps.leaves_out_rows

    def is_last_epoch(self, position: Position) -> bool:
        """Whether a position is in the last epoch of its pass."""
        last = position.last_epoch(self.num_epochs)
        return last is not None and position.epoch >= last

    def in_world(self, world: World | None = None) -> ReaderOptions:
        """Return the options with a fixed share: this rank's, if the share follows the world.

        Parameters
        ----------
        world : World, optional
            The world; by default the current one.
        """
        if not self.order.follows_world:
            return self
        return replace(self, order=self.order.share_of(world or find_world()))

    @cached_property
    def first_plan(self) -> Plan:
        """The rank's plan for a first pass that begins now."""
        return self.plan(Position())

    def compared(self) -> dict[str, Any]:
        """Return the JSON values that must be equal when a state is taken and when it loads."""
        return {
            "dataset": self.dataset.fingerprint,
            "settings": self.order.settings(),
            **vars(self.conditions),
            **self.order.recorded(
                {"columns": list(self.stored_columns), "num_epochs": self.num_epochs}
            ),
        }

    @cached_property
    def reading(self) -> Reading:
        """The steps for the columns of the dataset."""
        return Reading(self.dataset, self.columns, self.steps, self.outputs)

    @property
    def schema(self) -> Schema:
        """The columns that are read, as they are stored."""
        return self.reading.schema

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Names of the columns that are read, without those that are not stored."""
        return tuple(name for name in self.schema.names if name not in self.dataset.added)

    @property
    def samples_at_a_time(self) -> int:
        """How many samples a ``DataLoader`` worker reads at a time if no batch size is given."""
        return _SAMPLES_AT_A_TIME if self.reading.files is None else _FILES_AT_A_TIME

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Names of the columns in a batch."""
        return self.reading.columns

    @property
    def null_checked(self) -> list[Column]:
        """Stored columns whose nulls, if any, are certain to be in the output.

        With filters, a predicate or chosen rows there are no such columns, because rows with nulls
        may be left out. Nulls in images raise an error here.
        """
        if not self.reads_all_rows:
            return []
        reading = self.reading
        found = map(reading.column, reading.columns)
        columns = [column for column in found if column is not None]
        if (images := reading.images) is not None:
            images.check_nulls(columns)
        return columns

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Image settings to show in descriptions, as name-value pairs."""
        images = self.reading.images
        return [] if images is None else [("decode", f"{images}")]

    def block_reader(self, block_rows: int, recorder: Recorder | None) -> reader.BlockReader:
        """Return the `BlockReader` of these data, to which a plan gives the order."""
        return reader.BlockReader(
            reading=self.reading,
            batch_size=self.batch_size,
            workers=self.workers,
            prefetch=self.prefetch,
            block_rows=block_rows,
            samples_ahead=self.samples_ahead,
            sends=self.num_workers > 0,
            recorder=recorder,
        )

    @property
    def block_rows(self) -> int:
        """Maximum number of rows in a block; 1 for blocks of one batch."""
        # Images have the same shape only within a batch, unless they are resized.
        images = self.reading.images
        if self.by_shard or (images is not None and images.size is None):
            return 1
        return _IMAGES_AT_A_TIME if self.has_images else reader.BLOCK_ROWS

    @property
    def samples_ahead(self) -> int:
        """Minimum number of samples whose shards are opened ahead of use."""
        if self.predownload is not None:
            return self.predownload
        dataset = self.dataset
        per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
        rows = dataset.bytes_ahead // per_row or min(_BYTES_AHEAD // per_row, reader.BLOCK_ROWS)
        return max(8 * self.batch_size, rows)

    @cached_property
    def has_images(self) -> bool:
        """Whether images or files are read, which take far more memory than in their shards."""
        if self.reading.images is not None or self.reading.files is not None:
            return True
        chosen = self.dataset.schema.names if self.columns is None else self.columns
        columns = (self.dataset.schema.get(name) for name in chosen)
        return any(column is not None and column.is_image for column in columns)
