"""Checkpoints that Lightning saves while training on a batch, after an error or in a hook."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.slow.trainers.lightning_runs import Model, data_of, pl, trainer_of

#: Ignore Lightning's recommendations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

EPOCHS = 3
#: Number of batches in an epoch.
BATCHES = 11
#: Numbers of batches before an error in the middle of an epoch, and before one at its last batch.
MIDDLE, LAST = 5, BATCHES - 1


class TrainingError(Exception):
    """Raised while training on a batch."""


class Failing(Model):
    """Raises an error in a hook after training on some batches; may save a checkpoint first.

    Parameters
    ----------
    trained : int or None
        Number of batches before the error, over all epochs; None for no error.
    hook : str
        The method that raises the error.
    saves_to : Path or None
        Where the method saves a checkpoint first.
    """

    def __init__(
        self, trained: int | None = None, hook: str = "training_step", saves_to: Path | None = None
    ) -> None:
        super().__init__()
        self.fails_at, self.saves_to = (hook, trained), saves_to
        self.trained = 0

    def fail_in(self, hook: str) -> None:
        if (hook, self.trained) == self.fails_at:
            if self.saves_to is not None:
                self.trainer.save_checkpoint(self.saves_to)
            raise TrainingError

    def on_train_start(self) -> None:
        self.fail_in("on_train_start")

    def on_train_epoch_start(self) -> None:
        self.fail_in("on_train_epoch_start")

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        self.fail_in("transfer_batch_to_device")
        return batch

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.fail_in("on_train_batch_start")

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.fail_in("training_step")
        self.trained += 1
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.fail_in("on_train_batch_end")


def fit(
    kind: str, url: str, at: Path, model: Failing, ckpt_path: Path | None = None, **options: Any
) -> Any:
    """Train a model to the end, or until it raises the expected error, and return the Trainer."""
    trainer = trainer_of(at, EPOCHS, **options)
    how = {"ckpt_path": ckpt_path, "weights_only": False}
    if model.fails_at[1] is None:
        trainer.fit(model, **data_of(kind, url), **how)
    else:
        with pytest.raises(TrainingError):
            trainer.fit(model, **data_of(kind, url), **how)
    return trainer


def fit_and_save(
    kind: str, url: str, at: Path, model: Failing, ckpt_path: Path | None = None, **options: Any
) -> Path:
    """Train a model until it raises an error, and return the checkpoint that Lightning saves."""
    saving = pl.callbacks.OnExceptionCheckpoint(at)
    fit(kind, url, at, model, ckpt_path, callbacks=[saving], **options)
    return Path(saving.ckpt_path)


def check_equal_whole(kind: str, url: str, at: Path, *models: Failing, **options: Any) -> None:
    """Check that models were trained, one after another, on the rows of an uninterrupted run."""
    whole = Failing()
    fit(kind, url, at / "whole", whole, **options)
    assert len(whole.rows) == EPOCHS
    for epoch, expected in whole.rows.items():
        assert [row for model in models for row in model.rows.get(epoch, [])] == expected


def check_resumes(kind: str, url: str, at: Path, trained: int, **options: Any) -> None:
    """Check that a run resumes from the checkpoint that Lightning saves after an error."""
    before, after = Failing(trained), Failing()
    saved = fit_and_save(kind, url, at / "before", before, **options)
    fit(kind, url, at / "after", after, saved, **options)
    check_equal_whole(kind, url, at, before, after, **options)


@pytest.mark.parametrize(
    ("kind", "trained"),
    [
        *(("module", trained) for trained in (0, MIDDLE, LAST, BATCHES, BATCHES + LAST)),
        # Lightning prefetches a batch from loaders without a length.
        *(("transform", trained) for trained in (0, MIDDLE, LAST, BATCHES + LAST)),
        ("converter", LAST),
        ("validated module", LAST),
        ("batches of a seeded reader", LAST),
        *(
            pytest.param(kind, trained, marks=pytest.mark.long)
            for kind in ("converter", "transformed module", "streaming", "rows of a seeded reader")
            for trained in (0, MIDDLE, LAST, BATCHES, BATCHES + LAST)
        ),
    ],
)
def test_batch_that_failed_in_training_is_trained_again(
    url: str, tmp_path: Path, kind: str, trained: int
) -> None:
    check_resumes(kind, url, tmp_path, trained)


@pytest.mark.parametrize(
    ("kind", "trained", "options"),
    [
        ("module", MIDDLE, {"accumulate_grad_batches": 2}),
        ("transform", LAST, {"accumulate_grad_batches": 2}),
        ("module", 1, {"limit_train_batches": 2}),
        ("transform", 1, {"limit_train_batches": 2}),
        ("two loaders", LAST, {}),
        ("recreated", BATCHES, {"reload_dataloaders_every_n_epochs": 1}),
    ],
)
def test_batch_that_failed_in_training_is_trained_again_with_trainer_options(
    url: str, tmp_path: Path, kind: str, trained: int, options: dict[str, Any]
) -> None:
    check_resumes(kind, url, tmp_path, trained, **options)


@pytest.mark.parametrize("kind", ["module", "transform"])
@pytest.mark.parametrize(
    ("hook", "trained"),
    [
        ("on_train_start", 0),
        ("transfer_batch_to_device", MIDDLE),
        ("on_train_batch_start", MIDDLE),
        ("on_train_batch_start", LAST),
        ("on_train_batch_end", MIDDLE),
        ("on_train_batch_end", BATCHES),
    ],
)
def test_checkpoint_saved_in_hook_resumes_with_untrained_batches(
    url: str, tmp_path: Path, kind: str, hook: str, trained: int
) -> None:
    before, after = Failing(trained, hook, tmp_path / "saved.ckpt"), Failing()
    fit(kind, url, tmp_path / "before", before)
    fit(kind, url, tmp_path / "after", after, before.saves_to)
    check_equal_whole(kind, url, tmp_path, before, after)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("module", {}),
        ("converter", {"limit_train_batches": BATCHES - 1, "accumulate_grad_batches": 3}),
        ("transform", {"limit_train_batches": BATCHES - 1}),
        ("validated module", {"max_steps": EPOCHS * BATCHES}),
        ("own iteration", {}),
        pytest.param("recreated", {"reload_dataloaders_every_n_epochs": 1}, marks=pytest.mark.long),
        *(
            pytest.param(kind, {}, marks=pytest.mark.long)
            for kind in ("converter", "transform", "streaming", "batches of a seeded reader")
        ),
    ],
)
def test_checkpoint_at_start_of_epoch_resumes_with_that_epoch(
    url: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    trained = options.get("limit_train_batches", BATCHES)
    before, after = (
        Failing(trained, "on_train_epoch_start", tmp_path / "saved.ckpt"),
        Failing(),
    )
    fit(kind, url, tmp_path / "before", before, **options)
    fit(kind, url, tmp_path / "after", after, before.saves_to, **options)
    check_equal_whole(kind, url, tmp_path, before, after, **options)


@pytest.mark.parametrize("kind", ["module", "transform"])
def test_checkpoint_saved_after_fit_failed_resumes_with_failed_batch(
    url: str, tmp_path: Path, kind: str
) -> None:
    before, after, saved = Failing(MIDDLE), Failing(), tmp_path / "saved.ckpt"
    fit(kind, url, tmp_path / "before", before).save_checkpoint(saved)
    fit(kind, url, tmp_path / "after", after, saved)
    check_equal_whole(kind, url, tmp_path, before, after)


@pytest.mark.parametrize("kind", ["module", "transform"])
@pytest.mark.parametrize(
    ("hook", "trained"), [("training_step", LAST - MIDDLE), ("on_train_start", 0)]
)
def test_run_that_fails_twice_trains_on_each_batch(
    url: str, tmp_path: Path, kind: str, hook: str, trained: int
) -> None:
    models = [Failing(MIDDLE), Failing(trained, hook), Failing()]
    saved = fit_and_save(kind, url, tmp_path / "0", models[0])
    saved = fit_and_save(kind, url, tmp_path / "1", models[1], saved)
    fit(kind, url, tmp_path / "2", models[2], saved)
    check_equal_whole(kind, url, tmp_path, *models)


@pytest.mark.parametrize(
    ("hook", "trained"), [("training_step", 2), ("on_train_epoch_start", BATCHES)]
)
def test_step_count_is_correct_after_failed_batch_with_different_world_size(
    url: str, tmp_path: Path, hook: str, trained: int
) -> None:
    options = {"accumulate_grad_batches": 3}
    saved = fit_and_save("module", url, tmp_path, Failing(trained, hook), **options)
    checkpoint = torch.load(saved, weights_only=False)
    checkpoint["StreamingDataModule"]["world_size"] = 2
    torch.save(checkpoint, tmp_path / "other.ckpt")

    model = Failing()
    trainer = fit("module", url, tmp_path / "after", model, tmp_path / "other.ckpt", **options)
    assert trainer.estimated_stepping_batches == trainer.global_step == EPOCHS * -(-BATCHES // 3)


class TakingTwo(pl.LightningModule):  # type: ignore[misc]
    """A model that takes two batches in each step, and records the loader's states."""

    def __init__(self, loader: Any) -> None:
        super().__init__()
        self.layer, self.loader = torch.nn.Linear(1, 1), loader
        self.states: list[Any] = []

    def training_step(self, dataloader_iter: Any) -> Any:
        (_, *_), (batch, *_) = next(dataloader_iter), next(dataloader_iter)
        return self.layer(batch["x"][:, None]).mean()

    def on_train_batch_end(self, *_: Any) -> None:
        self.states.append(self.loader.state_dict())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader_of(url: str) -> Any:
    return data_of("converter", url)["train_dataloaders"]


def test_batches_that_a_training_step_takes_itself_count_as_trained(
    url: str, tmp_path: Path
) -> None:
    whole = [batch["number"].tolist() for batch in loader_of(url)]
    model = TakingTwo(loader_of(url))
    trainer_of(tmp_path, 1, max_steps=2).fit(model, model.loader)
    for number, state in enumerate(model.states, 1):
        loader = loader_of(url)
        loader.load_state_dict(state)
        assert [batch["number"].tolist() for batch in loader] == whole[2 * number :]
