"""Search for a learning rate with Hyperopt, whose trials run as Spark tasks.

pip install 'mdstorm[spark,torch]' hyperopt
python examples/tune_with_hyperopt.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from _support import spark_session
from hyperopt import STATUS_OK, SparkTrials, fmin, hp, tpe
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
    with tempfile.TemporaryDirectory() as folder, spark_session(folder) as spark:
        x = f"CAST(id / {ROWS} AS FLOAT)"
        converter = make_spark_converter(
            spark.range(ROWS).selectExpr(f"{x} AS x", f"3 * {x} AS y").repartition(4)
        )

        # Spark sends the function to its workers with all that it uses. Of the converter that is
        # where the shards lie and how many rows they hold; the rows themselves stay where they are.
        def objective(learning_rate: float) -> dict[str, Any]:
            loss, rows = train(converter, learning_rate)
            return {"loss": loss, "rows": rows, "status": STATUS_OK}

        trials = SparkTrials(parallelism=2, spark_session=spark)
        best = fmin(
            objective,
            hp.loguniform("learning_rate", np.log(1e-3), 0),
            algo=tpe.suggest,
            max_evals=TRIALS,
            trials=trials,
            rstate=np.random.default_rng(1),
            show_progressbar=False,
        )
        for trial in [*trials.trials, trials.best_trial]:
            rate, found = trial["misc"]["vals"]["learning_rate"][0], trial["result"]
            print(f"learning rate {rate:.4f}: loss {found['loss']:.6f} after {found['rows']} rows")
        again, _ = train(converter, best["learning_rate"])
        print(f"best, trained again: loss {again:.6f}")
        converter.delete()


if __name__ == "__main__":
    main()
