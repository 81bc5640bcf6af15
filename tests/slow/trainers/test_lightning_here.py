"""Lightning's data module in this process, and the epochs after a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.lightning_runs import (
    EPOCHS,
    Model,
    StreamingDataModule,
    data_of,
    fit,
    trainer_of,
)
from tests.slow.trainers.programs.support import converter_of

from mdstorm import make_reader
from mdstorm.errors import ArgumentTypeError
from mdstorm.pytorch import DataLoader
from mdstorm_backend.errors import InvalidArgumentError

#: Ignore Lightning's recommendations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

#: More steps than a run has.
MANY = 1000


@pytest.fixture(scope="module")
def converter(url: str) -> Any:
    return converter_of(url)


def test_endless_loader_raises_error_with_the_remedy(converter: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_steps"):
        StreamingDataModule(train=converter, num_epochs=None)
    with pytest.raises(InvalidArgumentError, match="max_steps"):
        StreamingDataModule(val=converter, evaluation={"num_epochs": None})


def test_data_module_over_a_loader_raises_error(converter: Any) -> None:
    loader = converter.make_torch_dataloader(num_epochs=1)
    with pytest.raises(ArgumentTypeError, match=r"trainer\.fit\(model, loader\)"):
        StreamingDataModule(train=loader)


def test_repr_of_data_module_shows_converters_until_loaders_are_made(converter: Any) -> None:
    module = StreamingDataModule(train=converter, val=converter, batch_size=100)
    assert repr(module) == f"StreamingDataModule(train={converter!r}, val={converter!r})"
    loader = module.train_dataloader()
    assert repr(module) == f"StreamingDataModule(train={loader!r}, val={converter!r})"
    assert module._repr_html_().count("<tr>") == 2


def test_evaluation_reads_in_stored_order_with_its_own_arguments(converter: Any) -> None:
    module = StreamingDataModule(
        train=converter, val=converter, batch_size=100, evaluation={"batch_size": 500}
    )
    validated = [batch["number"].tolist() for batch in module.val_dataloader()]
    assert [len(batch) for batch in validated] == [500, 500, ROWS - 1000]
    assert [row for batch in validated for row in batch] == list(range(ROWS))
    assert module.train_dataloader().batch_size == 100


def test_explicit_shards_take_precedence_over_automatic_shares(converter: Any) -> None:
    module = StreamingDataModule(train=converter, batch_size=100, cur_shard=1, shard_count=2)
    rows = [row for batch in module.train_dataloader() for row in batch["number"].tolist()]
    assert sorted(rows) == list(range(ROWS // 2 + 1, ROWS))


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                {"limit_train_batches": 4},
                {"max_steps": MANY},
                {"limit_train_batches": 4, "max_steps": MANY},
            )
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind",
    [
        "module",
        "validated module",
        "converter",
        "recreated",
        "all",
        "transform",
        "streaming",
        "own iteration",
        "batches of a reader",
        "rows of a reader",
    ],
)
def test_epochs_after_a_checkpoint_equal_those_of_uninterrupted_run(
    url: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    options = {"reload_dataloaders_every_n_epochs": int(kind == "recreated"), **options}
    whole = fit(data_of(kind, url), tmp_path, **options)
    assert len({tuple(rows) for rows in whole}) == EPOCHS
    again = {"ckpt_path": tmp_path / "epoch=1.ckpt", **options}
    resumed = fit(data_of(kind, url), tmp_path / "resumed", **again)
    assert resumed == [[], [], *whole[2:]]


def test_checkpoint_after_epoch_resumes_with_whole_next_epoch_under_max_steps(
    url: str, tmp_path: Path
) -> None:
    whole = fit(data_of("converter", url), tmp_path, max_steps=MANY)
    again = {"ckpt_path": tmp_path / "epoch=1.ckpt", "max_steps": MANY}
    assert fit(data_of("converter", url), tmp_path / "resumed", **again) == [[], [], *whole[2:]]


def steps_of(kind: str, url: str, at: Path, last: int, resumed: Path | None = None) -> list[int]:
    """Train up to a step, save ``last.ckpt``, and return the rows; epochs are not limited."""
    model, trainer = Model(), trainer_of(at, -1, max_steps=last)
    trainer.fit(model, **data_of(kind, url), ckpt_path=resumed, weights_only=False)
    trainer.save_checkpoint(at / "last.ckpt")
    return [row for rows in model.rows.values() for row in rows]


@pytest.mark.parametrize(
    "kind",
    [
        "converter",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("module", "transform")),
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("recreated", "two loaders")),
    ],
)
@pytest.mark.parametrize("ended", ["within an epoch", "after an epoch"])
def test_run_that_max_steps_ended_resumes_with_its_next_row(
    url: str, tmp_path: Path, kind: str, ended: str
) -> None:
    stop = 7 if ended == "within an epoch" else -(-ROWS // 100)
    begun = steps_of(kind, url, tmp_path / "begun", stop)
    rest = steps_of(kind, url, tmp_path / "rest", 30, tmp_path / "begun" / "last.ckpt")
    assert begun + rest == steps_of(kind, url, tmp_path / "whole", 30)


def test_run_that_max_steps_ended_resumes_with_next_epoch_without_max_steps(
    url: str, tmp_path: Path
) -> None:
    whole = fit(data_of("converter", url), tmp_path)
    steps_of("converter", url, tmp_path, 7)
    again = {"ckpt_path": tmp_path / "last.ckpt"}
    assert fit(data_of("converter", url), tmp_path, **again) == [[], *whole[1:]]


@pytest.mark.parametrize("options", [{}, {"max_steps": MANY}], ids=str)
def test_checkpoint_saved_after_fit_resumes(
    url: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    whole = fit(data_of("converter", url), tmp_path)
    trainer = trainer_of(tmp_path, epochs=2)
    trainer.fit(Model(), **data_of("converter", url))
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = {"ckpt_path": tmp_path / "last.ckpt", **options}
    assert fit(data_of("converter", url), tmp_path, **again) == [[], [], *whole[2:]]


@pytest.mark.filterwarnings("default:Lightning's checkpoint")
def test_checkpoint_of_loader_without_position_is_written_with_warning(
    url: str, tmp_path: Path
) -> None:
    reader = make_reader(url, ["number", "x"], num_epochs=1)
    next(reader)  # so that the loader takes the remaining rows one by one
    data = {"train_dataloaders": DataLoader(reader, batch_size=100)}
    with pytest.warns(UserWarning, match="does not contain the position"):
        (rows,) = fit(data, tmp_path, epochs=1, save_at=4)
    assert len(set(rows)) == ROWS - 1
    assert (tmp_path / "epoch=0-step=4.ckpt").exists()


def test_run_from_checkpoint_for_different_data_starts_at_the_beginning(
    url: str, even_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(data_of("converter", url), tmp_path, epochs=1)
    again = {"ckpt_path": tmp_path / "epoch=0.ckpt", "epochs": 2}
    rows = fit(data_of("converter", even_url), tmp_path, **again)[1]
    assert sorted(rows) == list(range(ROWS - 1))
    assert "does not match the training data" in caplog.text


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("module", {}),
        *(
            pytest.param(kind, options, marks=pytest.mark.long)
            for kind, options in (
                ("module", {"limit_train_batches": 2}),
                ("converter", {}),
                ("converter", {"limit_train_batches": 2}),
                ("streaming", {}),
                ("transform", {}),
                ("recreated", {"reload_dataloaders_every_n_epochs": 1}),
                ("batches of a reader", {}),
                ("rows of a reader", {}),
            )
        ),
    ],
)
def test_epochs_after_resuming_with_last_batch_equal_those_of_uninterrupted_run(
    url: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    whole = fit(data_of(kind, url), tmp_path, epochs=3, save_at=1, **options)
    last = options.get("limit_train_batches", -(-ROWS // 100)) - 1
    again = {"ckpt_path": tmp_path / f"epoch=0-step={last}.ckpt", "epochs": 3, **options}
    resumed = fit(data_of(kind, url), tmp_path / "resumed", **again)
    assert resumed == [whole[0][last * 100 :], *whole[1:]]


@pytest.mark.parametrize("kind", ["converter", pytest.param("transform", marks=pytest.mark.long)])
def test_epochs_of_one_batch_are_shuffled_differently(url: str, tmp_path: Path, kind: str) -> None:
    epochs = fit(data_of(kind, url), tmp_path, limit_train_batches=1)
    assert [len(rows) for rows in epochs] == [100] * EPOCHS
    assert len({tuple(rows) for rows in epochs}) == EPOCHS


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        ("converter", {"epochs": 3}),
        *(
            pytest.param(kind, length, marks=pytest.mark.long)
            for kind in ("module", "streaming", "transform", "transformed module", "two loaders")
            for length in ({"epochs": 3}, {"epochs": 3, "max_steps": 6})
        ),
    ],
)
def test_checkpoint_after_last_step_of_limited_epoch_resumes_with_next_epoch(
    url: str, tmp_path: Path, kind: str, length: dict[str, Any]
) -> None:
    options = {"limit_train_batches": 2, **length}
    whole = fit(data_of(kind, url), tmp_path, save_at=1, **options)
    again = {"ckpt_path": tmp_path / "epoch=0-step=2.ckpt", **options}
    assert fit(data_of(kind, url), tmp_path / "resumed", **again) == [[], *whole[1:]]
