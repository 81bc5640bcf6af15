"""`Reader`, which iterates over rows or batches."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, cast
from weakref import WeakSet

from mdstorm import errors
from mdstorm._datasets import Opened, ReadDataset
from mdstorm._petastorm_names import public
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.decimals import undecided_decimals, warn_of_decimals
from mdstorm._readers.items import cursor_of, items_of
from mdstorm._readers.options import reader_options
from mdstorm._readers.reading_order import sample_order
from mdstorm._readers.schema_fields import output_schema
from mdstorm._readers.succession import Succession, first_epoch
from mdstorm._row_types import Row
from mdstorm._transforms import WorkerPool
from mdstorm.ngram import NGram
from mdstorm.unischema import FIELDS, shown_fields
from mdstorm_backend import loaders
from mdstorm_backend.base import OwnContext, warn_user
from mdstorm_backend.display import Described, Description

#: The counts for a reader that has no function to run in a process pool.
_NO_COUNTS = {"items_consumed": 0, "items_produced": 0, "items_inprocess": 0}


@public("mdstorm.reader")
class Reader(Described, OwnContext):
    """Iterates over a dataset by row (`make_reader`) or by batch (`make_batch_reader`).

    A batch contains this rank's rows from one shard, which is a Parquet row group or an MDS shard.
    A reader has a single position, so every iterator over it continues where the last one stopped.
    A reader can be shared between threads.

    Attributes
    ----------
    schema : Unischema
        The fields in each row.
    is_batched_reader : bool
        Whether the reader yields batches.
    ngram : NGram or None
        The n-gram that joins rows.
    num_epochs : int or None
        Number of passes over the data; None means infinite.
    dataset : ReadDataset
        The dataset, without the row groups that filters and selectors exclude.
    cache : CacheBase
        The local disk cache for results, or a cache that stores nothing.
    last_row_consumed : bool
        Whether the reader has reached its end.
    stopped : bool
        Whether `stop` was called.
    """

    def __new__(cls, *parts: Any, **options: Any) -> Reader:
        """Raise UnsupportedArgumentError for the arguments of Petastorm's class."""
        if not parts or not isinstance(parts[0], Opened):
            raise errors.UnsupportedArgumentError(
                "a Reader cannot be constructed directly: call make_reader or make_batch_reader "
                "with the URL of the dataset. See docs/differences.md#workers-and-their-queues of "
                "mdstorm"
            )
        return super().__new__(cls)

    def __init__(
        self,
        opened: Opened,
        arguments: ReaderArguments,
        ngram: NGram | None = None,
        *,
        batched: bool,
    ) -> None:
        self._mdstorm_arguments = arguments
        row_numbers = arguments.added["row_numbers"]
        if ngram is not None and row_numbers is not None:
            ngram = ngram._mdstorm_with_first(row_numbers)
        overlap = 0 if ngram is None else ngram.length - 1
        order = sample_order(arguments)
        options = reader_options(
            arguments,
            opened.source,
            order,
            batched=batched,
            overlap=overlap,
            first_epoch=first_epoch(arguments, opened.source.url),
        )
        #: The passes of this reader, and of loaders over it, have their own permutations.
        self._mdstorm_succession = succession = Succession(options.first, options.on_pass)
        options = replace(options, first=succession.following, on_pass=succession.record)
        #: Loaders warn about decimal columns, unless the user declared a schema.
        inferred = options.output_columns if opened.inferred else ()
        undecided = undecided_decimals(options, arguments, inferred)
        self._mdstorm_warn_of_decimals = partial(warn_of_decimals, options.dataset.url, undecided)
        self.schema = output_schema(
            opened.unischema,
            options.output_columns,
            options.reading.images,
            chosen=bool(arguments.schema_fields),
            spec=arguments.transform_spec,
            given=options.reading.given_schema,
        )
        self.num_epochs = arguments.num_epochs
        self.is_batched_reader = batched
        self.ngram = ngram
        self.cache = arguments.cache
        self.last_row_consumed = False
        self.stopped = False
        self._mdstorm_items_of = items_of(self.schema, options.reading.column, batched, ngram)
        self._mdstorm_cursor = cursor_of(options, self._mdstorm_items_of, batched)
        self.dataset = ReadDataset(options.dataset)
        self._mdstorm_is_empty = not len(self.dataset)
        if self._mdstorm_is_empty:
            warn_user(
                f"No matching data is available for loading in {opened.source.url}: it has no "
                "rows, or the predicate, filters or selector exclude all of its row groups"
            )
        self._mdstorm_untouched = True
        #: Name of the loader that reads this reader's data; None while the reader is iterated
        #: directly.
        self._mdstorm_owner: str | None = None
        #: The loaders over this reader; `set_epoch` also applies to their next passes.
        self._mdstorm_loaders: WeakSet[loaders.Loader] = WeakSet()
        self._mdstorm_lock = threading.RLock()

    def __reduce__(self) -> NoReturn:
        name = "make_batch_reader" if self.is_batched_reader else "make_reader"
        raise errors.NotPicklableError(
            "a Reader cannot be sent to other processes, because it has threads and a position "
            "in the data. Create it in the worker: pass the URL to the function that Spark, or "
            f"the worker of a DataLoader, calls, and call {name}(url, …) there, with cur_shard=… "
            "and shard_count=… if each should read a share. A converter can be sent, because it "
            "can be pickled"
        )

    def _mdstorm_description(self, *, full: bool) -> Description:
        options = self._mdstorm_options
        description = loaders.describe_order(
            loaders.describe_data(self.dataset, full=False),
            options.order,
            len(self.dataset),
            [*options.shown, ("yields", "batches" if self.is_batched_reader else "rows")],
        )
        facts = [*description.facts, ("state", "stopped" if self.stopped else "open")]
        return replace(description, facts=facts, headings=FIELDS, rows=shown_fields(self.schema))

    @property
    def batched_output(self) -> bool:
        """Whether the reader yields batches."""
        return self.is_batched_reader

    def __iter__(self) -> Reader:
        return self

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Raise ArgumentTypeError, mainly because PyTorch's own DataLoader calls this first."""
        raise errors.ArgumentTypeError(
            "a Reader has no len(). If torch.utils.data.DataLoader was created over it, create "
            "mdstorm.pytorch.DataLoader(reader, batch_size=…) instead"
        )

    def __next__(self) -> Row:
        item: Row | None = None
        try:
            with self._mdstorm_lock:
                self._mdstorm_check_running()
                if self._mdstorm_untouched:
                    self._mdstorm_owner = None
                self._mdstorm_untouched = False
                # If the reader is empty, its constructor has already warned.
                for item in () if self._mdstorm_is_empty else self._mdstorm_cursor:
                    return item
                self.last_row_consumed = True
                raise StopIteration
        except BaseException:
            if item is not None:  # Ctrl-C came while the lock was being released
                with self._mdstorm_lock:
                    self._mdstorm_cursor.give_back()
            raise

    def next(self) -> Row:
        """Return the next row or batch."""
        return next(self)

    def reset(self) -> None:
        """Start a new pass, with new permutations, after the last row was consumed.

        Raises
        ------
        NotImplementedError
            If rows remain. Create a new reader instead.
        """
        if not self.last_row_consumed:
            raise NotImplementedError(
                "Currently do not support resetting a reader while in the middle of iteration. You "
                "can call reset only after all samples were consumed."
            )
        self._mdstorm_restart()

    def set_epoch(self, epoch: int) -> None:
        """Choose the first epoch of the next pass of the reader, or of a loader over it.

        A pass in progress is not affected. If a loaded state is in this epoch, the next pass still
        resumes from that state.

        Raises
        ------
        InvalidArgumentError
            If `epoch` is not an integer, or is negative.
        """
        with self._mdstorm_lock:
            self._mdstorm_cursor.loader.set_epoch(epoch)
            self._mdstorm_succession.set_next(epoch)
            for loader in list(self._mdstorm_loaders):
                loader.set_epoch(epoch)

    def stop(self) -> None:
        """Stop reading, and end the threads or processes that read ahead; safe to call again."""
        self.stopped = True
        if (workers := self._mdstorm_workers) is not None:
            workers.close()  # a thread may hold the lock while it waits for a worker
        with self._mdstorm_lock:
            self._mdstorm_cursor.end()
        self.dataset.release()

    def join(self) -> None:
        """Do nothing: `stop` has already waited for the threads."""

    def cleanup_cache(self) -> None:
        """Remove the contents of a local disk cache, unless the cache should outlive the reader.

        Errors are turned into warnings, because all data has been read by then.
        """
        try:
            self.cache.cleanup()
        except Exception as error:  # a user-defined cache may raise anything
            warn_user(f"Error cleaning cache: {error}. Its files may still exist")

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.stop()
        self.join()
        self.cleanup_cache()

    @property
    def _mdstorm_workers(self) -> WorkerPool | None:
        return cast("WorkerPool | None", self._mdstorm_options.steps.pool)

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Counts of work in progress, under Petastorm's keys.

        The counts include batches that were sent to functions in worker processes, but not results
        that were prefetched. Delta and Iceberg tables have the additional key ``table_version``.
        """
        pool = self._mdstorm_arguments.reader_pool_type
        counts: dict[str, Any] = {"output_queue_size": 0} if pool == "thread" else {}
        if pool == "process":
            workers = self._mdstorm_workers
            counts = _NO_COUNTS if workers is None else workers.counts
            counts = {**counts, "zmq_copy_buffers": self._mdstorm_arguments.zmq_copy_buffers}
        version = self.dataset.table_version
        return counts if version is None else {**counts, "table_version": version}

    def statistics(self, *, last_pass: bool = False) -> loaders.Statistics:
        """Return counts and timings for this reader and the loaders over it.

        Single rows are not timed. Waiting time is measured per row group, and yielding its rows
        counts as training time.

        Parameters
        ----------
        last_pass : bool
            Whether to return statistics only for the pass that began last, instead of all passes.
        """
        recorder = self._mdstorm_cursor.loader.recorder
        return loaders.Statistics.of(recorder, last_pass=last_pass)

    def state_dict(self) -> dict[str, Any]:
        """Return the reader's position, for `load_state_dict` of a reader with the same arguments.

        Reading resumes with the next row, batch or n-gram, in the same permutations.

        Raises
        ------
        StateMismatchError
            If a loader is reading this reader's data, because the loader then has the position.
        """
        with self._mdstorm_lock:
            if self._mdstorm_owner is not None:
                raise errors.StateMismatchError(
                    f"{self._mdstorm_owner} reads this reader's data, so the reader's own position "
                    "does not change: call its state_dict() instead, and load that state into it"
                )
            return self._mdstorm_cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, skip_batches: int = 0) -> None:
        """Resume from the position where a state was saved.

        Parameters
        ----------
        state : mapping
            The state.
        skip_batches : int
            Number of row groups or shards to leave out, beginning with the rest of the one in which
            the state was saved.

        Raises
        ------
        InvalidArgumentError
            If fewer than `skip_batches` remain in the pass.
        StateMismatchError
            If `state` is not a state, or is from a different dataset or different arguments.
        """
        with self._mdstorm_lock:
            self._mdstorm_cursor.load_state_dict(state, skip_batches)
            self._mdstorm_owner = None
            self.last_row_consumed, self._mdstorm_untouched = False, False

    def trace(self, state: Mapping[str, Any] | None = None) -> loaders.Trace:
        """Return which rows the row groups or shards have that are read, without reading data.

        Each is a batch. They are counted from 0, from the beginning of the running or else the next
        pass, or from where a state resumes. Rows have the numbers that ``row_numbers=`` adds, those
        in the whole dataset.

        Raises
        ------
        InvalidArgumentError
            If only reading shows which rows a batch has.
        StateMismatchError
            If `state` is not a state, or is from a different dataset or different arguments.
        UnsupportedArgumentError
            If the reader joins rows to n-grams.
        """
        if self.ngram is not None:
            raise errors.UnsupportedArgumentError(
                "trace() does not know the rows of n-grams: trace a reader without schema_fields="
                "NGram(…)"
            )
        with self._mdstorm_lock:
            return self._mdstorm_cursor.loader.trace(state)

    @property
    def _mdstorm_options(self) -> loaders.ReaderOptions:
        return self._mdstorm_cursor.loader.options

    def _mdstorm_restart(self) -> None:
        """Start a new pass, whatever the reader's position."""
        with self._mdstorm_lock:
            self._mdstorm_cursor.restart()
            self._mdstorm_owner = None
            self.last_row_consumed, self._mdstorm_untouched = False, True

    def _mdstorm_check_running(self) -> None:
        if self.stopped:
            raise RuntimeError(
                "Trying to read a sample after a reader created by make_reader/make_batch_reader "
                "has stopped. This may happen if the context manager of the reader was left "
                "before: read inside of the with statement"
            )
