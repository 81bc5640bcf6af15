"""The stages from stored rows to batches: what each does, their order, and the loop that runs them.

`stages_of` is the only place that knows the order. `run` is the only loop: it records the time of
each stage, and leaves out damaged rows. A new step is a subclass of `Stage` and a line in
`stages_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format import Batch, num_rows
from mdstorm_backend.read.block import Block, check_kept
from mdstorm_backend.read.damage import Damage, LeftOut, leave_out_rows, record_skipped
from mdstorm_backend.read.decoded_images import ImageDecoder
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.gather_rows import Gatherer
from mdstorm_backend.read.late import default_workers
from mdstorm_backend.read.refill import joined
from mdstorm_backend.read.stacking import arranged
from mdstorm_backend.read.steps import Reading

#: Returns how many of a number of threads a block may use.
Share: TypeAlias = Callable[[int], int]
#: Is called with the number of rows that were left out, and the reason.
Skip: TypeAlias = Callable[[int, str], object]


class Stage:
    """Changes a block, for example reads its rows, or decodes its images.

    Attributes
    ----------
    cause : Cause
        What a consumer waits for while the stage runs.
    """

    cause: Cause

    def run(self, block: Block, share: Share) -> None:
        """Change the block.

        Raises
        ------
        CorruptDatasetError
            If data are damaged; the block has not been changed.
        """
        raise NotImplementedError

    def leave_out(self, block: Block, error: CorruptDatasetError) -> LeftOut:
        """Remove the rows for which `run` raised an error; raise it if no rows can be named.

        Batches keep their positions, with fewer rows or none, so that all ranks have the same
        number of batches. `run` is then called again.
        """
        raise error


def run(
    stages: Sequence[Stage], block: Block, share: Share = int, *, skips: Skip | None = None
) -> Block:
    """Run stages one after another, and return the block.

    Parameters
    ----------
    stages : sequence of Stage
        The stages.
    block : Block
        Is changed.
    share : callable
        Returns how many of a number of threads the block may use; all by default.
    skips : callable, optional
        Is told of damaged rows, which are left out. By default, they raise CorruptDatasetError.
    """
    for stage in stages:
        with work(stage.cause):
            try:
                stage.run(block, share)
                continue
            except CorruptDatasetError as error:
                if skips is None:
                    raise
                left_out = stage.leave_out(block, error)
            for rows, reason in left_out:
                skips(rows, str(reason))
            stage.run(block, share)
    return block


class Gather(Stage):
    """Copies rows from their shards.

    Parameters
    ----------
    reading : Reading
        The columns to read. If there are no steps, matrices are made of the stored bytes.
    """

    cause = Cause.DECODING

    def __init__(self, reading: Reading) -> None:
        self.exact_nulls = nulls = reading.keeps_nulls or reading.steps.treat_nulls
        outputs = reading.outputs if reading.only_copies else ()
        self._gather = Gatherer.of(
            reading.dataset, reading.stored_names, exact_nulls=nulls, outputs=outputs
        )
        self.schema = self._gather.schema
        self.damage = Damage(reading.dataset, self.schema.names, self._gather)

    def run(self, block: Block, share: Share) -> None:
        """Copy the rows."""
        block.batch = self._gather(block.parts)

    def leave_out(self, block: Block, error: CorruptDatasetError) -> LeftOut:
        """Find the damaged rows by reading shards and parts of them alone."""
        return self.damage.leave_out(block)


@dataclass
class Join(Stage):
    """Joins rows that were read before they were cut into batches.

    Attributes
    ----------
    columns : sequence of str
        The columns of the rows.
    """

    cause = Cause.DECODING
    columns: Sequence[str]

    def run(self, block: Block, share: Share) -> None:
        """Join the rows; it is unknown which samples they came from."""
        block.batch = joined(block, self.columns)
        block.parts = []


@dataclass
class CallFunction(Stage):
    """Calls a function for the rows.

    Attributes
    ----------
    function : callable
        Returns the rows of a batch; if `keeps_rows` is false, of a block of one batch.
    cause : Cause
        What a consumer waits for while the function runs.
    keeps_rows : bool
        Whether the function returns all rows in their places.
    """

    function: Callable[[Batch], Batch]
    cause: Cause = Cause.TRANSFORMS
    keeps_rows: bool = False

    def run(self, block: Block, share: Share) -> None:
        """Call the function."""
        given = num_rows(block.batch)
        block.batch = self.function(block.batch)
        if self.keeps_rows:
            check_kept(given, num_rows(block.batch))
        else:
            block.sizes = [num_rows(block.batch)]


@dataclass
class FileContents(Stage):
    """Puts the contents of files in place of their paths.

    Attributes
    ----------
    reader : FileReader
        Reads the files that have not been requested ahead.
    """

    cause = Cause.DOWNLOADS
    reader: FileReader

    def run(self, block: Block, share: Share) -> None:
        """Wait for the files; do nothing if the block has their contents."""
        self.reader.complete(block)

    def leave_out(self, block: Block, error: CorruptDatasetError) -> LeftOut:
        """Leave out the rows whose file does not exist."""
        return leave_out_rows(block, self.reader.missing(block))


@dataclass
class Images(Stage):
    """Decodes images.

    Attributes
    ----------
    decoder : ImageDecoder
        Decodes them.
    """

    cause = Cause.DECODING
    decoder: ImageDecoder

    def run(self, block: Block, share: Share) -> None:
        """Decode the images."""
        threads = share(default_workers())
        block.batch = self.decoder(block.batch, block.numbers, threads)

    def leave_out(self, block: Block, error: CorruptDatasetError) -> LeftOut:
        """Leave out the rows whose images are damaged."""
        return leave_out_rows(block, dict(self.decoder.damaged(block.batch, block.numbers)))


#: The first and last stage to run in another process, the rows and sizes of a block, and the
#: numbers of its samples for error messages.
_Sent: TypeAlias = tuple[int, int | None, Batch, list[int], Sequence[int]]
#: The resulting rows and sizes, what was left out, and what a `FileReader` has recorded there.
_Returned: TypeAlias = tuple[
    Batch, list[int], list[tuple[int, str]], tuple[list[int], list[str]] | None
]


@dataclass
class Apart(Stage):
    """Runs stages in another process.

    Attributes
    ----------
    pool : callable
        Calls the result of `calls_apart` in other processes.
    first, last : int, int or None
        Which of those stages to run.
    names_samples : bool
        Whether messages of the stages name samples by their numbers.
    files : FileReader or None
        Reads the files of the stages.
    """

    cause = Cause.TRANSFORMS
    pool: Callable[[_Sent], _Returned]
    first: int
    last: int | None
    names_samples: bool
    files: FileReader | None

    def run(self, block: Block, share: Share) -> None:
        """Send the rows, and receive the result."""
        numbers = block.numbers() if self.names_samples else ()
        sent = self.first, self.last, block.batch, block.sizes, numbers
        block.batch, block.sizes, left_out, recorded = self.pool(sent)
        for rows, reason in left_out:
            record_skipped(rows, reason)
        if self.files is not None and recorded is not None:
            self.files.record(*recorded)


def calls_apart(reading: Reading) -> Callable[[_Sent], _Returned]:
    """Return a picklable function that calls a reading's functions in another process."""
    filters, changes = _functions(reading)
    return partial(_run_apart, [*filters, *changes], reading.files, reading.steps.skips)


def _run_apart(
    stages: Sequence[Stage], files: FileReader | None, skips: bool, sent: _Sent
) -> _Returned:
    first, last, batch, sizes, numbers = sent
    left_out: list[tuple[int, str]] = []
    block = Block(sizes, batch=batch, numbered=numbers)
    skip = (lambda rows, reason: left_out.append((rows, reason))) if skips else None
    run(stages[first:last], block, skips=skip)
    recorded = None if files is None else files.recorded()
    return block.batch, block.sizes, left_out, recorded


class Stages(NamedTuple):
    """The stages of a reading, by what they are run on.

    Attributes
    ----------
    gather : Gather
        The first stage.
    slices : sequence of Stage
        Run on slices of shards, from whose remaining rows batches are cut.
    batches : sequence of Stage
        Run on blocks of batches.
    contents : sequence of Stage
        Run on blocks of batches once their files, which are requested ahead, have been read.
    """

    gather: Gather
    slices: Sequence[Stage]
    batches: Sequence[Stage]
    contents: Sequence[Stage]


def stages_of(reading: Reading, *, cut: bool) -> Stages:
    """Return the stages from stored rows to batches, in their order.

    Parameters
    ----------
    reading : Reading
        The steps, and the columns of a dataset.
    cut : bool
        Whether batches are cut from the rows that functions return. Otherwise, blocks are batches,
        so that files can be requested ahead for functions.
    """
    steps, files, images = reading.steps, reading.files, reading.images
    filters, changes = _functions(reading)
    first = [] if steps.filters else _nulls(reading)
    last: list[Stage] = []
    if images is not None and not reading.decodes_first:
        last.append(Images(images))
    gather = Gather(reading)
    if reading.outputs:
        matrices = partial(arranged, outputs=reading.outputs)
        last.append(CallFunction(matrices, Cause.BATCHING, keeps_rows=True))
    if steps.pool is not None:
        apart = partial(Apart, steps.pool, names_samples=bool(files or images), files=files)
        middle = len(filters)
        if cut or files is None:
            filters, changes = [], [apart(0, None)]
        else:
            filters, changes = filters and [apart(0, middle)], changes and [apart(middle, None)]
    stages = partial(Stages, gather)
    if cut:
        slices, join = [gather, *first, *filters, *changes], Join(reading.columns)
        if files is None or reading.reads_first:
            return stages(slices, [join, *last], [])
        return stages(slices, [join], [FileContents(files), *last])
    if files is None:
        return stages([], [gather, *first, *filters, *changes, *last], [])
    return stages([], [gather, *first, *filters], [FileContents(files), *changes, *last])


def _functions(reading: Reading) -> tuple[list[Stage], list[Stage]]:
    """Return the stages that may run in other processes: up to the predicates, and after them."""
    steps, files, images = reading.steps, reading.files, reading.images
    filters: list[Stage] = [*map(CallFunction, steps.filters)]
    if steps.filters:
        filters += _nulls(reading)
    filters += map(CallFunction, steps.predicates)
    if steps.hidden:
        filters.append(CallFunction(partial(_selected, names=reading.given), keeps_rows=True))
    changes: list[Stage] = []
    if files is not None and reading.reads_first:
        changes.append(FileContents(files))
    if images is not None and reading.decodes_first:
        changes.append(Images(images))
    if steps.transform is not None:
        keeps_rows = bool(getattr(steps.transform, "keeps_rows", False))
        changes.append(CallFunction(steps.transform, keeps_rows=keeps_rows))
    return filters, changes


def _nulls(reading: Reading) -> list[Stage]:
    nulls = CallFunction(reading.nulls, Cause.DECODING, keeps_rows=True)
    return [nulls] if reading.steps.treat_nulls else []


def _selected(batch: Batch, names: Sequence[str]) -> Batch:
    return {name: batch[name] for name in names}
