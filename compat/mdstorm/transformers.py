"""Train and evaluate with Hugging Face's Trainer on converters, `StreamingDataset` and loaders.

For example::

    class MyTrainer(StreamingTrainerMixin, Trainer):
        pass


    MyTrainer(model, args, train_dataset=converter, eval_dataset=other_converter).train()

The Trainer lets subclasses create its loaders, and notifies callbacks when epochs begin. This
module also uses private Trainer attributes that have no public equivalent: ``_train_batch_size``,
``_set_signature_columns_if_needed`` with ``_signature_columns`` (the columns that a model accepts),
and ``_get_collator_with_removed_columns``. Tested with transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mdstorm_backend.base import require

try:
    import torch
except ModuleNotFoundError:
    require("torch")  # raises the error that names the extra to install
    raise

from torch.utils.data import DataLoader

from mdstorm._spark import SparkDatasetConverter
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.loaders.torch import StreamingDataLoader, StreamingDataset

__all__ = ["StreamingTrainerMixin"]

_transformers: Any = require("transformers")

if TYPE_CHECKING:
    from transformers import Trainer as _Base
else:
    _Base = object


class StreamingTrainerMixin(_Base):  # type: ignore[misc]
    """A mixin that lets a ``Trainer`` read converters, `StreamingDataset` and their loaders.

    Put the mixin before ``Trainer`` in the list of base classes. You can then pass these objects as
    `train_dataset` and `eval_dataset`, as values in a dict of datasets, and to ``evaluate`` and
    ``predict``. Each row is read once. Other datasets are handled by the Trainer as usual.

    A converter is read once per epoch. For training, it is shuffled with the ``data_seed`` or
    ``seed`` of the TrainingArguments. For other options, pass a loader from
    ``make_torch_dataloader(num_epochs=1, …)``, which keeps its own batch size.

    Batches are dicts of tensors. ``label`` and ``label_ids`` become ``labels``, and with
    ``remove_unused_columns``, columns that the model does not accept are dropped. A `data_collator`
    gets lists of samples.

    With several processes, predictions are returned in the order in which the processes read rows.
    To join them with the rows, have the model also return a column that identifies the rows.

    When training resumes from a checkpoint, the Trainer skips the batches it has already trained
    on. The number of processes and the batch size must be the same as when the checkpoint was
    written.

    Raises
    ------
    InvalidArgumentError
        In ``train``, if the checkpoint was written with a different number of processes or a
        different batch size.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(_Resumption)
        #: Prepared loaders to reuse, by the `id` of their source. These are loaders that the user
        #: passed, and evaluation loaders with persistent workers. The source is stored with the
        #: loader so that its `id` stays valid.
        self._kept_loaders: dict[int, tuple[object, DataLoader[Any]]] = {}

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the prepared loader for `train_dataset`."""
        if not _is_ours(self.train_dataset):
            return cast("DataLoader[Any]", super().get_train_dataloader())
        return self._prepared(self.train_dataset, self._train_batch_size, trains=True)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Return the prepared loader for `eval_dataset`, or for the dataset with that name."""
        chosen: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(chosen, str) and isinstance(self.eval_dataset, Mapping):
            chosen = self.eval_dataset[chosen]
        if not _is_ours(chosen):
            return cast("DataLoader[Any]", super().get_eval_dataloader(eval_dataset))
        return self._prepared(chosen, self.args.eval_batch_size)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        """Return the prepared loader for a dataset passed to ``predict``."""
        if not _is_ours(test_dataset):
            return cast("DataLoader[Any]", super().get_test_dataloader(test_dataset))
        return self._prepared(test_dataset, self.args.eval_batch_size)

    def _prepared(self, source: Any, batch_size: int, *, trains: bool = False) -> DataLoader[Any]:
        if id(source) in self._kept_loaders:
            return self._ready(self._kept_loaders[id(source)][1])
        is_loader = isinstance(source, DataLoader)
        prepared = self._ready(
            source if is_loader else self._loader_of(source, batch_size, trains=trains)
        )
        if is_loader or (self.args.dataloader_persistent_workers and not trains):
            self._kept_loaders[id(source)] = (source, prepared)
        return prepared

    def _ready(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        prepared: Any = self.accelerator.prepare(loader)
        columns = None
        if self.args.remove_unused_columns:
            self._set_signature_columns_if_needed()
            columns = frozenset(self._signature_columns)
        prepared.dataset.batch_map = _Keywords(columns)
        return cast("DataLoader[Any]", prepared)

    def _loader_of(
        self, source: StreamingDataset | SparkDatasetConverter, batch_size: int, *, trains: bool
    ) -> StreamingDataLoader:
        args, dataset = self.args, cast(StreamingDataset, source)
        if isinstance(source, SparkDatasetConverter):
            loader: Any = source.make_torch_dataloader(
                batch_size=batch_size,
                num_epochs=1,
                shuffle_row_groups=trains,
                shuffle_rows=trains,
                seed=args.seed if args.data_seed is None else args.data_seed,
                cur_shard="auto",
            )
            dataset = loader.dataset
        collate = None
        if self.data_collator is not _transformers.default_data_collator:  # the user's
            collate = self._get_collator_with_removed_columns(self.data_collator)
        return StreamingDataLoader(
            dataset,
            batch_size=batch_size,
            collate_fn=collate,
            drop_last=args.dataloader_drop_last,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            multiprocessing_context=args.dataloader_multiprocessing_context,
            prefetch_factor=args.dataloader_prefetch_factor,
        )


def _is_ours(source: object) -> bool:
    if getattr(source, "_is_accelerate_prepared", False):
        return hasattr(getattr(source, "dataset", None), "batch_map")
    return isinstance(source, (StreamingDataset, StreamingDataLoader, SparkDatasetConverter))


class _Keywords:
    """Converts a batch to the model's keyword arguments, as transformers' default collator does.

    Parameters
    ----------
    names : frozenset of str or None
        The columns that the model accepts, or None for all.
    """

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names

    def __call__(self, batch: Any) -> Any:
        """Return the model's keyword arguments. Batches that are not mappings stay unchanged."""
        if not isinstance(batch, Mapping):
            return batch
        names = self._names
        inputs = {name: values for name, values in batch.items() if names is None or name in names}
        for name in ("label", "label_ids"):
            if name in inputs and "labels" not in inputs:
                labels = inputs.pop(name)
                if isinstance(labels, torch.Tensor):
                    labels = labels.float() if labels.is_floating_point() else labels.long()
                inputs["labels"] = labels
        return inputs


def _described(shape: Mapping[str, int]) -> str:
    return (
        f"global batches of {shape['rows_of_a_global_batch']} rows, number of processes: "
        f"{shape['processes']}"
    )


class _Resumption(_transformers.TrainerCallback, _transformers.trainer_callback.ExportableState):  # type: ignore[misc]
    """A callback that ensures that a resumed run skips exactly the batches already trained on."""

    def __init__(self) -> None:
        #: Number of processes and batch size, for checkpoints; None if the loader is not mdstorm's.
        self.shape: dict[str, int] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raise InvalidArgumentError if the checkpoint's process count or batch size differs."""
        loader: Any = kwargs.get("train_dataloader")
        self.shape = None
        if not _is_ours(loader):
            return
        rows = loader.total_batch_size
        self.shape = {"processes": args.world_size, "rows_of_a_global_batch": rows}
        saved = state.stateful_callbacks.get(type(self).__name__, {})
        there = saved.get("attributes", {}).get("shape")
        skips = state.global_step > 0 and not args.ignore_data_skip
        if skips and there is not None and there != self.shape:
            raise InvalidArgumentError(
                f"the checkpoint was written with {_described(there)}, and this run has "
                f"{_described(self.shape)}: the Trainer would skip rows that were not trained on. "
                "Use the same number of processes and the same batch size, or start the epoch "
                "again with TrainingArguments(ignore_data_skip=True)"
            )

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Set the loader's epoch to the Trainer's epoch, even while the Trainer skips batches."""
        loader: Any = kwargs.get("train_dataloader")
        if not _is_ours(loader):
            return
        try:
            batches = len(loader)
        except TypeError:  # without a length, the Trainer treats all batches as one epoch
            return
        steps = max(-(-batches // args.gradient_accumulation_steps), 1)
        loader.set_epoch(state.global_step // steps)

    def state(self) -> dict[str, Any]:
        """Return the callback's state for a checkpoint."""
        return {"args": {}, "attributes": {"shape": self.shape}}
