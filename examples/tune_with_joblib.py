"""Try learning rates in parallel with joblib, whose calls run as Spark tasks.

pip install 'mdstorm[spark,torch]' joblibspark
python examples/tune_with_joblib.py
"""

from __future__ import annotations

import tempfile

import joblib
import torch
from _support import spark_session
from joblibspark import register_spark
from torch import nn

from mdstorm.spark import SparkDatasetConverter, make_spark_converter

ROWS = 1_000
LEARNING_RATES = [0.001, 0.01, 0.1, 1.0]


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
    register_spark()
    with tempfile.TemporaryDirectory() as folder, spark_session(folder) as spark:
        x = f"CAST(id / {ROWS} AS FLOAT)"
        converter = make_spark_converter(
            spark.range(ROWS).selectExpr(f"{x} AS x", f"3 * {x} AS y").repartition(4)
        )
        # The converter pickles: it only says where the shards lie, and how many rows they hold.
        with joblib.parallel_backend("spark", n_jobs=2):
            found = joblib.Parallel()(
                joblib.delayed(train)(converter, rate) for rate in LEARNING_RATES
            )
        trials = [
            (loss, rate, rows) for rate, (loss, rows) in zip(LEARNING_RATES, found, strict=True)
        ]
        for loss, rate, rows in [*trials, min(trials)]:
            print(f"learning rate {rate:.4f}: loss {loss:.6f} after {rows} rows")
        again, _ = train(converter, min(trials)[1])
        print(f"best, trained again: loss {again:.6f}")
        converter.delete()


if __name__ == "__main__":
    main()
