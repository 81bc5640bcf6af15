"""`Rest`: a stretch of a pass that is read without interruption, and what adapters read it with.

`Schedule.rests` makes a `Rest` for a whole pass, or for each epoch where no batch spans two. It
holds the options, the `Batching` and the `Place` at which reading begins. Adapters for PyTorch,
TensorFlow and readers call `Rest.blocks`, in this process or, as a `Rest` can be pickled, in each
worker process for a part of the batches. `Pass` uses `Rest.sampler` to keep its position.

`sampler_of` chooses the `Sampler` for an order. `PieceSampler` is the sampler of passes whose
samples have no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.threads import WorkAhead, cached_property
from mdstorm_backend.elastic import ElasticSampler, ElasticShare, StreamShape
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order import Chunk, ExactOrder, ExactSampler, Place, Sampler
from mdstorm_backend.order.lanes import ceil_div
from mdstorm_backend.read import Block, pieces, reader
from mdstorm_backend.read.even_batches import EvenBatches

#: Bytes of samples whose shards are opened ahead of use, if opening a shard needs no network.
_BYTES_AHEAD = 256 << 20
#: Largest number of epochs in a block, approximately, so that the first batch of an endless pass
#: over a few rows need not wait for thousands of epochs.
_EPOCHS_PER_BLOCK = 16


@dataclass(frozen=True)
class Batching:
    """How a loader makes batches.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    drop_last : bool
        Whether to leave out batches that are not full.
    num_workers : int
        Number of worker processes that read; 0 to read in the loader's own process.
    by_shard : bool
        Whether a batch is the rank's part of one shard, whatever its size. Only the exact order has
        such batches; in others, and for the state, `batch_size` is that of the largest one.
    """

    batch_size: int
    drop_last: bool = False
    num_workers: int = 0
    by_shard: bool = False


@dataclass(frozen=True, eq=False)
class PieceSampler(Sampler):
    """The sampler of a rank's parts of shards, whose samples have no numbers: see `PieceReader`.

    Its positions are of type `Position`.

    Attributes
    ----------
    order : ExactOrder
        The order, with a fixed seed, and the rank.
    epoch_size : int
        Samples of an epoch.
    num_epochs : int or None
        Epochs of a pass; None never ends.
    drops_rows : bool
        Whether the transform may return any number of rows.
    num_parts : int
        Number of processes that share the batches.
    even : EvenBatches or None
        How the rows that the transform returns are spread over batches; None if they fill them.
    """

    order: ExactOrder
    epoch_size: int
    num_epochs: int | None
    drops_rows: bool
    num_parts: int = 1
    even: EvenBatches | None = None
    spans_epochs: ClassVar[bool] = True
    has_numbers: ClassVar[bool] = False

    @property
    def has_equal_batches(self) -> bool:
        """Whether all ranks are certain to have the same number of batches."""
        return self.even is not None

    @property
    def num_samples(self) -> int:
        """Samples of an epoch over the whole world."""
        return self.epoch_size

    @property
    def rows_per_epoch(self) -> int:
        """Rows of this rank in one epoch."""
        if self.even is not None:
            return self.even.rows_per_epoch
        return len(self.order.rows(self.epoch_size))

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.order.world_size

    def begun(self, place: Place) -> Place:
        """Return `place` completed for a pass that begins or resumes there."""
        self.order.rows(self.epoch_size)  # checks the number of ranks
        first_epoch = place.pass_epoch
        return replace(place, first_epoch=first_epoch, seed=self.order.seed)

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on, if known; otherwise True."""
        return self.epoch_size > 0 and not place.is_end and not self.is_over(place)

    def is_over(self, place: Place) -> bool:
        """Whether a pass is certain to have delivered its last batch."""
        # A rank that shares the rows in unequal batches knows its end only when it is requested:
        # after the last batch it resumes with an empty pass, while the others finish the epoch.
        ends_alone = self.even is None and self.order.world_size > 1
        if self.num_epochs is None or self.drops_rows or ends_alone:
            return False
        is_last = place.epoch == place.pass_epoch + self.num_epochs - 1
        rows = self.rows_per_epoch
        if self.even is not None and self.even.drop_last:
            rows -= self.num_epochs * rows % self.even.batch_size
        return is_last and place.row >= rows

    def length(self) -> int:
        """Return the number of batches of a whole pass.

        Raises
        ------
        TypeError
            If the number is not known.
        """
        if self.even is not None and self.num_epochs is not None:
            return len(self.even)
        reason = (
            "num_epochs=None never ends"
            if self.num_epochs is None
            else ("a transform may drop rows" if self.drops_rows else "batches are row groups")
        )
        raise TypeError(f"the number of batches is not known: {reason}")

    def position(self, place: Place) -> pieces.Position:
        """Return the position of a place."""
        return pieces.Position(place.epoch, place.row)

    def advanced(self, position: pieces.Position, mark: pieces.Position) -> pieces.Position:
        """Return the position after a batch, which is its mark."""
        return mark

    def milestone(self, begun: Place, position: pieces.Position) -> pieces.Position:
        """Return the position at which the next epoch begins."""
        return pieces.Position(position.epoch + 1, 0)

    def place(self, begun: Place, position: pieces.Position) -> Place:
        """Return the place of a position."""
        consumed = position.row * self.order.world_size
        return replace(begun, epoch=position.epoch, consumed=consumed, row=position.row)

    def end(self, begun: Place) -> pieces.Position:
        """Return the position of the end of a pass; for an endless pass, of its beginning."""
        if self.num_epochs is None:
            return self.position(begun)
        return pieces.Position(begun.pass_epoch + self.num_epochs - 1, self.rows_per_epoch)

    def after_samples(self, begun: Place, samples: int) -> pieces.Position:
        """Raise StateMismatchError: numbers of samples do not determine a position."""
        raise StateMismatchError(
            "a transform may drop rows, so samples do not say how far the dataset is: take "
            "the state from a StreamingDataLoader over it, loader.state_dict()"
        )

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Raise TypeError: only `PieceReader` can read the samples."""
        raise TypeError("samples of pieces have no numbers")

    def after_part(
        self, place: Place, skipped: int, part: int, mark: pieces.Position
    ) -> tuple[Place, int, int]:
        """Return where a part resumes after its first batch: those of the other parts come next."""
        return self.place(place, mark), 0, self.num_parts - 1


def sampler_of(
    options: ReaderOptions,
    batching: Batching,
    place: Place = Place(),  # noqa: B008  # frozen
    ahead: WorkAhead[Any] | None = None,
) -> Sampler:
    """Return the sampler of this rank from a place on; the only code that depends on the order.

    Parameters
    ----------
    options : ReaderOptions
        What to read; its share of the rows must be known.
    batching : Batching
        How batches are made.
    place : Place, optional
        Where reading begins or resumes. Its seed takes precedence over that of the order.
    ahead : WorkAhead, optional
        Computes the next epoch in the background while one is read.
    """
    order, dataset = options.order, options.dataset
    assert not order.follows_world, "in_world() has not been called"
    num_parts = max(batching.num_workers, 1)
    if isinstance(order, ElasticShare):
        streams = order.streams or (StreamShape(dataset.shard_sizes),)
        return ElasticSampler(
            replace(order, streams=streams),
            batching.batch_size,
            options.num_epochs,
            batching.drop_last,
            num_parts,
            ahead or WorkAhead(),
            dataset.url,
        )
    if place.seed is not None:
        order = replace(order, seed=place.seed)
    if batching.by_shard or options.drops_rows:
        even = None
        # Only the transform's function may drop rows, and no filter or predicate.
        if order.world_size > 1 and not (batching.by_shard or options.leaves_out_rows):
            rows = max(ceil_div(len(dataset), order.world_size), 1)
            even = EvenBatches(batching.batch_size, rows, options.num_epochs, batching.drop_last)
        drops_rows = options.drops_rows and even is None
        return PieceSampler(order, len(dataset), options.num_epochs, drops_rows, num_parts, even)
    size, drop_last = batching.batch_size, batching.drop_last
    return ExactSampler(order, dataset.bounds, size, options.num_epochs, drop_last, num_parts)


@dataclass(frozen=True, eq=False)
class Rest:
    """A stretch of a pass, from a place on, of which each worker reads a part. It can be pickled.

    Attributes
    ----------
    options, batching
        What is read, and how batches are made of it.
    place : Place
        Where the stretch begins.
    skipped : int
        Samples of the part to leave out, in the order whose parts are lists of samples.
    recorder : Recorder or None
        Records the reading in this process; None to record nothing.
    ahead : WorkAhead
        Computes the next epoch in the background while one is read.
    """

    options: ReaderOptions
    batching: Batching
    place: Place
    skipped: int = 0
    recorder: Recorder | None = None
    ahead: WorkAhead[Any] = field(default_factory=WorkAhead)

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler of the stretch."""
        return sampler_of(self.options, self.batching, self.place, self.ahead)

    @property
    def least_rows(self) -> int:
        """Batches with fewer rows are not delivered."""
        is_even = isinstance(self.sampler, PieceSampler) and self.sampler.even is not None
        return self.batching.batch_size if self.batching.drop_last and not is_even else 0

    def blocks(
        self, part: int = 0, *, block_rows: int | None = None, unread: bool = False
    ) -> Iterator[Block]:
        """Read the batches of a part; with `unread`, only lay them out: see `Reader.planned`."""
        sampler, place, options = self.sampler, self.place, self.options
        arguments = {
            "dataset": options.dataset,
            "batch_size": self.batching.batch_size,
            "columns": options.columns,
            "samples_ahead": samples_ahead(options, self.batching.batch_size),
            "recorder": self.recorder,
            **options.read_arguments(block_rows),
        }
        if isinstance(sampler, PieceSampler):
            piece_reader = pieces.PieceReader(
                order=sampler.order,
                num_epochs=options.num_epochs,
                slices=options.slices,
                by_shard=self.batching.by_shard,
                keep=options.keep,
                even=sampler.even,
                **arguments,
            )
            parts = max(self.batching.num_workers, 1)
            return piece_reader.pieces(sampler.position(place), place.pass_epoch, part, parts)
        if sampler.spans_epochs:
            most = _EPOCHS_PER_BLOCK * max(sampler.rows_per_epoch, 1)
            arguments["block_rows"] = min(arguments["block_rows"], most)
        blocks_reader = reader.Reader(**arguments, keeps_open=sampler.has_windows)
        chunks, sizes = sampler.part(place, part, self.skipped)
        return (blocks_reader.planned if unread else blocks_reader.blocks)(chunks, sizes)

    def after(self, part: int, mark: Any) -> tuple[Rest, int]:
        """Return the rest after a batch of a part, given its mark, and the part's number there."""
        place, skipped, part = self.sampler.after_part(self.place, self.skipped, part, mark)
        return replace(self, place=place, skipped=skipped), part


def samples_ahead(options: ReaderOptions, batch_size: int) -> int:
    """Return the least number of samples whose shards are opened ahead of use."""
    if options.predownload is not None:
        return options.predownload
    dataset = options.dataset
    per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
    rows = dataset.bytes_ahead // per_row or min(_BYTES_AHEAD // per_row, reader.BLOCK_ROWS)
    return max(8 * batch_size, rows)
