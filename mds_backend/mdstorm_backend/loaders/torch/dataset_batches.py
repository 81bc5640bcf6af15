"""The whole batches of a `StreamingDataset`, for a plain ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from torch.utils.data import IterableDataset, default_collate, get_worker_info

from mdstorm_backend.display import Described, Description
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.loader_statistics import Statistics
from mdstorm_backend.loaders.order_descriptions import describe_data
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples, overrides
from mdstorm_backend.loaders.torch.dataset_states import WorkerPart
from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader
from mdstorm_backend.loaders.torch.torch_batches import DeliveredBatches, Recipe, check_columns


class DatasetBatches(Described, IterableDataset[Any]):
    """The batches of a dataset: see `StreamingDataset.as_batches`.

    Parameters
    ----------
    dataset : DatasetSamples
        What to read.
    batch_size : int
        Rows of a batch.

    Raises
    ------
    InvalidArgumentError
        If the dataset overrides ``__iter__``, or `batch_size` is not a positive integer.
    """

    def __init__(self, dataset: DatasetSamples, batch_size: int) -> None:
        super().__init__()
        if type(dataset).__iter__ is not DatasetSamples.__iter__:
            raise InvalidArgumentError(
                f"{type(dataset).__name__} overrides __iter__, which batches of whole columns "
                "would bypass: override __getitem__ instead, or let PyTorch build the batches, "
                "DataLoader(dataset, batch_size=…)"
            )
        self.dataset = dataset
        self._batch_size = batch_size
        #: Reads in this process, where there are no workers.
        self._loader = StreamingDataLoader(dataset, batch_size)

    def _mdstorm_description(self, *, full: bool) -> Description:
        found, size = describe_data(self.dataset, full=full), f"{self._batch_size}"
        facts = [*found.facts, ("batch_size", size)]
        return replace(found, line=[*found.line, f"batch_size={size}"], facts=facts)

    def __len__(self) -> int:
        """Batches of a whole pass.

        Raises
        ------
        TypeError
            If epochs are infinite, or a transform may drop rows.
        """
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return iter(self._loader)
        return self._batches_of(self.dataset._mdstorm.begin_part(info, self._batch_size))

    def _batches_of(self, part: WorkerPart) -> Iterator[Any]:
        dataset = self.dataset
        recipe = Recipe(default_collate if overrides(type(dataset)) else None)
        if recipe.collate is None:
            check_columns(dataset._mdstorm.options)
        for rest, number in part.rests():
            batches = DeliveredBatches(dataset, recipe, rest)
            # Blocks of one batch: a view would take its whole block along to the other process.
            with closing(batches.converted(batches.blocks(number, 1))) as delivered:
                for batch, mark, _ in delivered:
                    part.advance(mark)
                    yield batch

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return what was delivered in this process, as `StreamingDataLoader.statistics` does.

        Workers of a plain ``DataLoader`` count nothing.
        """
        return self._loader.statistics(last_pass=last_pass)

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, see `StreamingDataset.set_epoch`."""
        self.dataset._mdstorm.schedule.next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return where reading stands, in a worker process of its own part.

        Raises
        ------
        StateMismatchError
            If nobody knows: in the elastic order, workers of a plain ``DataLoader`` read the
            batches.
        """
        place: Any = self._loader if get_worker_info() is None else self.dataset._mdstorm
        state: dict[str, Any] = place.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on where a state was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset, order or world, or is not a state.
        """
        self.dataset._mdstorm.load_state_dict(state)
        if get_worker_info() is None:
            # Another one: where this one has stood no longer counts.
            self._loader = StreamingDataLoader(self.dataset, self._batch_size)
