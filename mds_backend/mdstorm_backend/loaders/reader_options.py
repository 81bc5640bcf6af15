"""`ReaderOptions`: which dataset to read and how, as picklable values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.checks import make_scalars_plain
from mdstorm_backend.base.recorder import Recorder
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
    FileReader,
    ImageDecoder,
    NullPolicy,
    OnCorrupt,
    Output,
    SampleSource,
    Transform,
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
    dataset : SampleSource
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
    transform : Transform, optional
        Called with the rows that are read from each shard.
    slices : bool
        Whether to call the transform with slices of these rows, in the exact order: see
        `Refill`.
    images : ImageDecoder, optional
        Decodes images. A transform that changes image columns has to be made by the decoder's
        `before`; images in other columns are decoded after the transform.
    fill_nulls, null_masks, on_corrupt, check_ranks
        See `mdstorm_backend.loaders.arguments`. Nulls are filled and masked before the transform.
    outputs : tuple of Output
        The columns of a batch, and matrices made from several columns; by default all of
        `output_columns`.
    keep : callable, optional
        Caches the results of the transform, in the exact order: see `Refill`.
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

    dataset: SampleSource
    order: Order
    batch_size: int = 1
    drop_last: bool = False
    num_workers: int = 0
    by_shard: bool = False
    largest: int | None = None
    columns: Sequence[str] | None = None
    num_epochs: int | None = 1
    transform: Transform | None = None
    slices: bool = False
    images: ImageDecoder | None = None
    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] = ()
    outputs: tuple[Output, ...] = ()
    keep: refill.Keep | None = None
    on_corrupt: OnCorrupt = "raise"
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
        object.__setattr__(self, "null_masks", tuple(self.null_masks or ()))
        dataset, is_chosen = self.dataset, self.dataset.chosen is not None
        order = self.order.over([StreamShape(dataset.shard_sizes)], chosen=is_chosen)
        object.__setattr__(self, "order", order)

    @property
    def drops_rows(self) -> bool:
        """Whether the transform may change the number of rows, or its results are cached."""
        if self.transform is None:
            return False
        return self.keep is not None or not getattr(self.transform, "keeps_rows", False)

    @property
    def batching(self) -> Batching:
        """How the rank's samples are cut into batches."""
        cut: Cut = "as stored" if self.by_shard else "numbered"
        if self.drops_rows:
            # Ranks can have equal numbers of batches if only the transform's function drops rows,
            # rather than a filter or predicate.
            cut = "as returned" if self.by_shard or self.leaves_out_rows else "as stored"
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
    def leaves_out_rows(self) -> bool:
        """Whether filters or a predicate may leave out rows."""
        return bool(getattr(self.transform, "leaves_out_rows", False))

    @property
    def reads_all_rows(self) -> bool:
        """Whether all stored rows are read, and with them the nulls that are counted."""
        return self.dataset.chosen is None and not self.leaves_out_rows

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
    def schema(self) -> Schema:
        """The columns that are read, as they are stored."""
        return self.dataset.schema.select(self.dataset.select(self.columns))

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Names of the columns that are read, without those that are not stored."""
        return tuple(name for name in self.schema.names if name not in self.dataset.added)

    @cached_property
    def nulls(self) -> NullPolicy:
        """How nulls are filled and masked."""
        return NullPolicy(self.schema, self.fill_nulls, self.null_masks, self.dataset)

    @cached_property
    def files(self) -> FileReader | None:
        """Reads the files whose contents are in columns."""
        found = self.dataset.file_reader
        if found is None:
            return None
        fill = self.nulls.content_of_nulls(found.columns)
        return replace(found, fill=fill, skips=self.on_corrupt == "skip")

    @property
    def samples_at_a_time(self) -> int:
        """How many samples a ``DataLoader`` worker reads at a time if no batch size is given."""
        return _SAMPLES_AT_A_TIME if self.files is None else _FILES_AT_A_TIME

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Names of the columns in a batch."""
        return tuple(self.transform.columns) if self.transform else self.nulls.columns

    def column(self, name: str) -> Column | None:
        """Return an output column's stored column, or None if a transform or mask made it.

        A column whose nulls are filled is returned without nulls.
        """
        if self.transform is None or name in getattr(self.transform, "unchanged", ()):
            return self._columns.get(name)
        return None

    @property
    def null_checked(self) -> list[Column]:
        """Stored columns whose nulls, if any, are certain to be in the output.

        With filters, a predicate or chosen rows there are no such columns, because rows with nulls
        may be left out. Nulls in images raise an error here.
        """
        if not self.reads_all_rows:
            return []
        columns = [
            column for name in self.output_columns if (column := self.column(name)) is not None
        ]
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
        """Image settings to show in descriptions, as name-value pairs."""
        return [] if self.images is None else [("decode", f"{self.images}")]

    def block_reader(self, block_rows: int, recorder: Recorder | None) -> reader.Reader:
        """Return the `Reader` of these data, to which a plan gives the order."""
        nulls_stay = not self.fill_nulls and not self.null_masks
        is_handled = bool(getattr(self.transform, "handles_nulls", False))
        return reader.Reader(
            dataset=self.dataset,
            batch_size=self.batch_size,
            columns=self.columns,
            transform=self.transform,
            prepare=None if nulls_stay or is_handled else self.nulls,
            exact_nulls=is_handled or not nulls_stay,
            images=self.images,
            files=self.files,
            outputs=self.outputs,
            on_corrupt=self.on_corrupt,
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
        if self.by_shard or (self.images is not None and self.images.size is None):
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
        if self.images is not None or self.files is not None:
            return True
        chosen = self.dataset.schema.names if self.columns is None else self.columns
        columns = (self.dataset.schema.get(name) for name in chosen)
        return any(column is not None and column.is_image for column in columns)
