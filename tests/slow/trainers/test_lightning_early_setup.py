"""Checkpoints of models that read `estimated_stepping_batches`, as learning-rate schedules do.

Lightning then requests the training data before it reads the checkpoint's position.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import SAVED_AT
from tests.slow.trainers.lightning_runs import (
    Model,
    StreamingDataModule,
    data_of,
    fit,
    pl,
    trainer_of,
)
from tests.slow.trainers.programs.support import converter_of

from mdstorm_backend.errors import StateMismatchError

#: Ignore Lightning's recommendations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

EPOCHS = 2
CHECKPOINT = f"epoch=0-step={SAVED_AT}.ckpt"
COUNTS = "configure_optimizers"


def check_resumes(
    kind: str, url: str, at: Path, *, counts_in: str = COUNTS, loaders: int = 1, **options: Any
) -> None:
    """Check that a resumed run trains on the same rows as an uninterrupted one."""
    options, saved = {"epochs": EPOCHS, **options}, {"save_at": options.pop("save_at", SAVED_AT)}
    model = Model(counts_in)
    whole = fit(data_of(kind, url), at, model=model, **saved, **options)
    for epoch in whole:
        assert sorted(epoch) == sorted([*range(ROWS)] * loaders)

    model = Model(counts_in)
    options = {"ckpt_path": at / CHECKPOINT, "model": model, **options}
    resumed = fit(data_of(kind, url), at / "resumed", **options)
    assert resumed == [whole[0][SAVED_AT * 100 * loaders :], *whole[1:]]
    assert resumed[1] != whole[0]
    if kind == "validated module":
        assert [model.validated[epoch] for epoch in range(EPOCHS)] == [[*range(ROWS)]] * EPOCHS


@pytest.mark.parametrize(
    ("kind", "counts_in"),
    [
        ("validated module", COUNTS),
        ("transform", "setup"),
        ("batches of a reader", COUNTS),
        pytest.param("module", COUNTS, marks=pytest.mark.long),
        pytest.param("transformed module", "setup", marks=pytest.mark.long),
        pytest.param("converter", COUNTS, marks=pytest.mark.long),
        pytest.param("module", "setup", marks=pytest.mark.long),
        pytest.param("streaming", COUNTS, marks=pytest.mark.long),
        pytest.param("all", COUNTS, marks=pytest.mark.long),
        pytest.param("recreated", COUNTS, marks=pytest.mark.long),
        pytest.param("batches of a reader", "", marks=pytest.mark.long),
        pytest.param("rows of a reader", "", marks=pytest.mark.long),
    ],
)
def test_model_that_counts_steps_resumes_with_next_row(
    url: str, tmp_path: Path, kind: str, counts_in: str
) -> None:
    check_resumes(kind, url, tmp_path, counts_in=counts_in)


def test_two_training_loaders_resume_with_their_next_rows(url: str, tmp_path: Path) -> None:
    check_resumes("two loaders", url, tmp_path, loaders=2)


@pytest.mark.parametrize("kind", ["module", "recreated"])
def test_loaders_reloaded_each_epoch_resume_with_next_row(
    url: str, tmp_path: Path, kind: str
) -> None:
    check_resumes(kind, url, tmp_path, reload_dataloaders_every_n_epochs=1)


@pytest.mark.parametrize("kind", ["module", "converter"])
def test_run_with_accumulated_gradients_resumes_with_next_row(
    url: str, tmp_path: Path, kind: str
) -> None:
    options = {"accumulate_grad_batches": 2, "save_at": SAVED_AT // 2}
    whole = fit(data_of(kind, url), tmp_path, epochs=2, model=Model(COUNTS), **options)
    again = {"ckpt_path": tmp_path / f"epoch=0-step={SAVED_AT // 2}.ckpt", "epochs": 2}
    del options["save_at"]
    resumed = fit(data_of(kind, url), tmp_path / "b", model=Model(COUNTS), **again, **options)
    assert resumed == [whole[0][SAVED_AT * 100 :], whole[1]]


class RestoringLate(pl.strategies.SingleDeviceStrategy):  # type: ignore[misc]
    """A strategy that loads checkpoints after making the optimizers, as FSDP and DeepSpeed do."""

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["module", "transformed module"])
def test_strategy_that_restores_late_resumes_with_next_row(
    url: str, tmp_path: Path, kind: str
) -> None:
    strategy = RestoringLate(torch.device("cpu"), accelerator=pl.accelerators.CPUAccelerator())
    check_resumes(kind, url, tmp_path, strategy=strategy, accelerator="auto")


@pytest.mark.parametrize("options", [{}, {"limit_train_batches": 4}], ids=str)
@pytest.mark.parametrize("kind", ["module", "converter"])
def test_epochs_after_a_checkpoint_keep_their_order(
    url: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    whole = fit(data_of(kind, url), tmp_path, epochs=3, model=Model(COUNTS), **options)
    again = {"ckpt_path": tmp_path / "epoch=0.ckpt", "epochs": 3, "model": Model(COUNTS)}
    resumed = fit(data_of(kind, url), tmp_path / "resumed", **again, **options)
    assert resumed == [[], *whole[1:]]
    assert whole[0] != whole[1] != whole[2]


@pytest.fixture
def no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove mdstorm's hook, which makes Lightning request the loaders again on a resume."""
    loop = pl.loops.fit_loop._FitLoop
    monkeypatch.setattr(loop, "on_load_checkpoint", loop.on_load_checkpoint.__wrapped__)


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Lightning load the states of loaders requested early, as a later version may do."""
    loop = pl.loops.fit_loop._FitLoop

    def loading_states(setup: Callable[[Any], None]) -> Callable[[Any], None]:
        def setup_data(self: Any) -> None:
            is_early = self._combined_loader is not None and self.restarting
            if is_early and self._combined_loader_states_to_load:
                self._load_combined_loader_states()
                vars(self._data_fetcher).get("batches", []).clear()
                iter(self._data_fetcher)
            setup(self)

        return setup_data

    monkeypatch.setattr(loop, "setup_data", loading_states(loop.setup_data))


@pytest.mark.usefixtures("no_hook")
@pytest.mark.parametrize("kind", ["module", "transformed module"])
def test_data_module_resumes_from_its_own_state(url: str, tmp_path: Path, kind: str) -> None:
    check_resumes(kind, url, tmp_path)


@pytest.mark.usefixtures("no_hook", "mended")
@pytest.mark.parametrize("kind", ["module", "transformed module", "converter", "transform"])
def test_run_resumes_with_next_row_if_lightning_also_loads_the_state(
    url: str, tmp_path: Path, kind: str
) -> None:
    check_resumes(kind, url, tmp_path)


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("kind", ["module", "transformed module", "converter", "transform"])
def test_run_resumes_with_next_row_if_hook_and_lightning_load_the_state(
    url: str, tmp_path: Path, kind: str
) -> None:
    check_resumes(kind, url, tmp_path)


def test_checkpoint_without_data_module_position_resumes_with_next_row(
    url: str, tmp_path: Path
) -> None:
    whole = fit(
        data_of("module", url), tmp_path, epochs=EPOCHS, save_at=SAVED_AT, model=Model(COUNTS)
    )
    checkpoint = torch.load(tmp_path / CHECKPOINT, weights_only=False)
    del checkpoint["StreamingDataModule"]["train"]
    torch.save(checkpoint, tmp_path / "early.ckpt")
    again = {"ckpt_path": tmp_path / "early.ckpt", "epochs": EPOCHS, "model": Model(COUNTS)}
    resumed = fit(data_of("module", url), tmp_path / "resumed", **again)
    assert resumed == [whole[0][SAVED_AT * 100 :], *whole[1:]]


def test_data_module_over_different_data_resumes_at_end_of_epoch_but_raises_within_epoch(
    url: str, even_url: str, tmp_path: Path
) -> None:
    fit(data_of("module", url), tmp_path, epochs=2, model=Model(COUNTS))
    again = {"epochs": 2, "ckpt_path": tmp_path / "epoch=0.ckpt"}
    rows = fit(data_of("module", even_url), tmp_path, model=Model(COUNTS), **again)[1]
    assert sorted(rows) == [*range(ROWS - 1)]

    fit(data_of("module", url), tmp_path, epochs=2, save_at=SAVED_AT, model=Model(COUNTS))
    again = {"epochs": 2, "ckpt_path": tmp_path / CHECKPOINT}
    with pytest.raises(StateMismatchError, match="a different dataset"):
        fit(data_of("module", even_url), tmp_path, model=Model(COUNTS), **again)


@pytest.mark.parametrize("run", ["validate", "predict"])
def test_evaluating_checkpoint_does_not_move_training_data_position(
    url: str, tmp_path: Path, run: str
) -> None:
    fit(data_of("module", url), tmp_path, epochs=1, save_at=SAVED_AT)
    converter = converter_of(url)
    splits = dict.fromkeys(("train", "val", "predict"), converter)
    module = StreamingDataModule(**splits, batch_size=100)
    evaluate = getattr(trainer_of(tmp_path / "evaluated", 1), run)
    options = {"ckpt_path": tmp_path / CHECKPOINT, "weights_only": False}
    evaluate(Model(), datamodule=module, **options)
    assert sorted(fit({"datamodule": module}, tmp_path, epochs=1)[0]) == [*range(ROWS)]


def test_state_loaded_without_trainer_moves_training_data_position(url: str) -> None:
    converter = converter_of(url)
    modules = [StreamingDataModule(train=converter, batch_size=100, seed=1) for _ in range(2)]
    batches = iter(modules[0].train_dataloader())
    next(batches)
    modules[1].load_state_dict(modules[0].state_dict())
    rest = [batch["number"].tolist() for batch in modules[1].train_dataloader()]
    assert rest == [batch["number"].tolist() for batch in batches]


@pytest.mark.parametrize("accumulated", [pytest.param(1, marks=pytest.mark.long), 3])
@pytest.mark.parametrize("save_at", [None, 2])
def test_step_count_is_correct_after_resuming_with_different_world_size(
    url: str, tmp_path: Path, save_at: int | None, accumulated: int
) -> None:
    options = {"epochs": 3, "accumulate_grad_batches": accumulated}
    fit(data_of("module", url), tmp_path, save_at=save_at, **options)
    saved = "epoch=0.ckpt" if save_at is None else f"epoch=0-step={save_at}.ckpt"
    checkpoint = torch.load(tmp_path / saved, weights_only=False)
    checkpoint["StreamingDataModule"]["world_size"] = 2
    torch.save(checkpoint, tmp_path / "other.ckpt")

    model, estimated = Model(), []
    trainer = trainer_of(tmp_path / "resumed", **options)
    model.configure_optimizers = lambda: (  # type: ignore[method-assign]
        estimated.append(trainer.estimated_stepping_batches)
        or torch.optim.SGD(model.parameters(), lr=0.1)
    )
    trainer.fit(
        model, **data_of("module", url), ckpt_path=tmp_path / "other.ckpt", weights_only=False
    )
    assert estimated == [trainer.global_step] == [3 * -(-(ROWS // 100 + 1) // accumulated)]


@pytest.mark.parametrize("world_size", [1, 2])
def test_len_of_training_data_raises_error_after_loading_state_from_different_world_size(
    url: str, world_size: int
) -> None:
    module = StreamingDataModule(train=converter_of(url), batch_size=100)
    module.load_state_dict({**module.state_dict(), "world_size": world_size})
    if world_size == 1:
        assert len(module.train_dataloader()) == ROWS // 100 + 1
    else:
        with pytest.raises(TypeError, match="a different number of processes"):
            len(module.train_dataloader())
