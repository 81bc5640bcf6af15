"""Search for a learning rate with Optuna: the rows are converted once, and every trial reads them.

pip install 'mdstorm[spark,torch]' optuna
python examples/tune_with_optuna.py
"""

from __future__ import annotations

import tempfile

import optuna
import torch
from _support import spark_session
from torch import nn

from mdstorm.spark import SparkDatasetConverter, make_spark_converter

ROWS = 1_000
TRIALS = 4


def train(converter: SparkDatasetConverter, learning_rate: float) -> tuple[float, int]:
    """Return the loss after one epoch, and the number of rows that it took."""
    torch.manual_seed(1)
    model, rows = nn.Linear(1, 1), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    # The same seed in all trials: what differs between them is the learning rate, not the order.
    loader = converter.make_torch_dataloader(
        batch_size=50, num_epochs=1, seed=1, shuffling_queue_capacity=ROWS
    )
    with loader:
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch["x"][:, None])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(batch["x"])
    return loss.item(), rows


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, spark_session(folder) as spark:
        x = f"CAST(id / {ROWS} AS FLOAT)"
        converter = make_spark_converter(
            spark.range(ROWS).selectExpr(f"{x} AS x", f"3 * {x} AS y").repartition(4)
        )

        def objective(trial: optuna.Trial) -> float:
            learning_rate = trial.suggest_float("learning_rate", 1e-3, 1.0, log=True)
            loss, rows = train(converter, learning_rate)
            trial.set_user_attr("rows", rows)
            return loss

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
        study.optimize(objective, n_trials=TRIALS)
        for trial in [*study.trials, study.best_trial]:
            rate, rows = trial.params["learning_rate"], trial.user_attrs["rows"]
            print(f"learning rate {rate:.4f}: loss {trial.value:.6f} after {rows} rows")
        again, _ = train(converter, study.best_params["learning_rate"])
        print(f"best, trained again: loss {again:.6f}")
        converter.delete()


if __name__ == "__main__":
    main()
