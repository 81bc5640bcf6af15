"""The data module for ``lightning.pytorch`` and ``pytorch_lightning``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdstorm_backend.base import require

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    require("torch")  # raises the error that names the extra to install
    raise

from mdstorm._spark import SparkDatasetConverter
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.display import Described, Description
from mdstorm_backend.integrations import load_position
from mdstorm_backend.loaders import Statistics
from mdstorm_backend.loaders.torch import StreamingDataLoader, loop_of
from mdstorm_backend.order import find_world

_SPLITS = ("train", "val", "test", "predict")

#: Options that read evaluation data in stored order.
_IN_ORDER: dict[str, Any] = {
    "shuffle_row_groups": False,
    "shuffle_rows": False,
    "shuffling_queue_capacity": 0,
}


class ConverterLoaders(Described):
    """A Lightning data module that reads from converters: ``Trainer().fit(model, module)``.

    Once the Trainer has started its processes, with any strategy, each rank reads its share of the
    rows, and each row is read once per epoch. Lightning's checkpoints contain the position in the
    training data, so ``fit(…, ckpt_path=…)`` continues with the next row.

    Parameters
    ----------
    train, val, test, predict : SparkDatasetConverter, optional
        Converters for training, validation, test and prediction. Lightning skips the splits that
        you leave out.
    batch_size : int
        Rows per batch on each rank.
    evaluation : mapping, optional
        Arguments to override for `val`, `test` and `predict`, such as ``{"batch_size": 1024}``. By
        default, their rows are read in stored order.
    **options
        Other arguments of `SparkDatasetConverter.make_torch_dataloader`. The defaults are
        ``cur_shard="auto"`` and ``num_epochs=1``.

    Attributes
    ----------
    loaders : dict of str to StreamingDataLoader
        The loaders created so far, by split. A Trainer gets the same loaders in every epoch and
        run, so that each epoch is shuffled differently.

    Raises
    ------
    ArgumentTypeError
        If an argument for a split is not a converter.
    InvalidArgumentError
        If `num_epochs` is None, or `data_loader_fn` is passed.
    """

    #: The Trainer, set by Lightning.
    trainer: Any

    def __init__(
        self,
        train: SparkDatasetConverter | None = None,
        val: SparkDatasetConverter | None = None,
        test: SparkDatasetConverter | None = None,
        predict: SparkDatasetConverter | None = None,
        *,
        batch_size: int = 32,
        evaluation: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        given = dict(zip(_SPLITS, (train, val, test, predict), strict=True))
        for split, converter in given.items():
            if converter is not None and not isinstance(converter, SparkDatasetConverter):
                raise ArgumentTypeError(
                    f"{split} must be a converter from make_spark_converter, found "
                    f"{type(converter).__name__}: pass loaders to the Trainer itself, "
                    "trainer.fit(model, loader)"
                )
        training = {"num_epochs": 1, "batch_size": batch_size, **options}
        if not {"cur_shard", "shard_count"} & options.keys():
            training["cur_shard"] = "auto"
        evaluating = {**training, **_IN_ORDER, **(evaluation or {})}
        for arguments in (training, evaluating):
            if arguments["num_epochs"] is None:
                raise InvalidArgumentError(
                    "with num_epochs=None the loader never ends, but an epoch of a Trainer is one "
                    "pass over its loader: leave num_epochs out, and set the length of training "
                    "with Trainer(max_epochs=…) or Trainer(max_steps=…)"
                )
            if arguments.get("data_loader_fn") is not None:
                raise InvalidArgumentError(
                    "data_loader_fn creates a different kind of loader, whose position is not "
                    "stored in checkpoints: leave it out, or override train_dataloader in your own "
                    "LightningDataModule"
                )
        self._converters = {split: found for split, found in given.items() if found is not None}
        self._options = dict.fromkeys(_SPLITS, evaluating) | {"train": training}
        self.loaders: dict[str, StreamingDataLoader] = {}
        #: The checkpoint's numbers of steps, epochs, and batches in its last epoch, followed by the
        #: number of batches that remain in that epoch. None if unknown.
        self._resumed: tuple[tuple[int, int, int] | None, int | None] = (None, None)
        for split in _SPLITS:
            method = f"{split}_dataloader"
            is_own = getattr(type(self), method) is getattr(ConverterLoaders, method)
            if split not in self._converters and is_own:
                setattr(self, method, None)  # Lightning then finds no loader for the split

    def _mdstorm_description(self, *, full: bool) -> Description:
        data = self._converters | self.loaders
        shown = {split: repr(data[split]) for split in self._converters}
        return Description([f"{split}={found}" for split, found in shown.items()], [*shown.items()])

    def train_dataloader(self) -> StreamingDataLoader:
        """Return the training loader."""
        return self._loader("train")

    def val_dataloader(self) -> StreamingDataLoader:
        """Return the validation loader."""
        return self._loader("val")

    def test_dataloader(self) -> StreamingDataLoader:
        """Return the test loader."""
        return self._loader("test")

    def predict_dataloader(self) -> StreamingDataLoader:
        """Return the prediction loader."""
        return self._loader("predict")

    def statistics(self) -> dict[str, Statistics]:
        """Return each split's loader statistics (see `StreamingDataLoader.statistics`)."""
        return {split: loader.statistics() for split, loader in self.loaders.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the training data for Lightning's checkpoint."""
        training, loop = self.loaders.get("train"), getattr(self.trainer, "fit_loop", None)
        progress = None
        if loop is not None:
            batches, epochs = loop.epoch_loop.batch_progress, loop.epoch_progress
            trained = batches.current.processed
            progress = (loop.epoch_loop.global_step, epochs.current.started, trained)
        return {
            "progress": progress,
            "world_size": self._world_size,
            "is_counted": training is None or training._mdstorm.has_length,
            "train": None if training is None else training.state_dict(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume training at the position stored in a checkpoint.

        Lightning also saves loader states, but loads them only into loaders that it has not
        requested before. It calls this method before it requests them.

        If the number of processes has changed, the length of the training data is hidden. Lightning
        uses the length of its first epoch for all epochs, but after resuming, that epoch contains
        only the remaining batches. Without a length, Lightning trains until the loader ends, and
        calls `mdstorm_count_steps` to get the number of steps.
        """
        trainer = self.trainer
        is_evaluating = trainer is not None and (trainer.evaluating or trainer.predicting)
        if "train" not in self._converters or is_evaluating:
            return
        loader = self._loader("train")
        is_same = state_dict["is_counted"] and state_dict["world_size"] == self._world_size
        loader._mdstorm.has_length = is_same
        position = state_dict.get("train")  # missing in checkpoints of early versions
        if position is None:
            return
        # A state that does not fit only causes a warning here. If it was saved within an epoch,
        # Lightning also loads it into the loader itself, and that raises an error.
        if load_position(loader, position):
            self._resumed = (state_dict.get("progress"), loop_of(loader).num_remaining())

    def mdstorm_count_steps(self) -> int | None:
        """Return the number of steps in all epochs of a resumed run, for Lightning's estimate.

        This is the sum of the steps before the checkpoint, the remaining steps in its epoch with
        the current world size, and the steps in the following epochs, or None if unknown.
        """
        progress, remaining = self._resumed
        if progress is None or remaining is None:
            return None
        loader = self._loader("train")
        whole = loop_of(loader).length()
        steps, epochs, batches = progress
        each = self.trainer.accumulate_grad_batches
        if remaining:
            steps += -(-(batches + remaining) // each) - batches // each
        return int(steps + max(self.trainer.max_epochs - epochs, 0) * -(-whole // each))

    @property
    def _world_size(self) -> int:
        training = self._options["train"]
        is_auto = "auto" in (training.get("cur_shard"), training.get("shard_count"))
        return find_world().size if is_auto else int(training.get("shard_count") or 1)

    def teardown(self, stage: str) -> None:
        """Stop the loaders' threads. The loaders can be iterated again afterward."""
        for loader in self.loaders.values():
            loader.close()

    def _loader(self, split: str) -> StreamingDataLoader:
        if split not in self.loaders:
            converter = self._converters[split]
            loader = converter.make_torch_dataloader(**self._options[split])
            assert isinstance(loader, StreamingDataLoader)
            self.loaders[split] = loader
        return self.loaders[split]
