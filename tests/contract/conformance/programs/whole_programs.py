"""Programs that go from raw data to a model, as in Petastorm tutorials."""

from typing import Any

import tensorflow as tf
import torch
from petastorm.spark import make_spark_converter
from tests.contract.conformance.place import Place


class _Model(torch.nn.Module):
    """A single layer with all weights initialised to one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(size, 1)
        for parameter in self.layer.parameters():
            torch.nn.init.ones_(parameter)

    def forward(self, batch: torch.Tensor) -> Any:
        return self.layer(batch.flatten(1)).squeeze(1)


def _losses(model: Any, batches: Any) -> list[str]:
    """Train for one pass; return the losses, rounded so that all PyTorch versions agree."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), labels.float())
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4g}")
    return losses


def vectors_of_text_files_are_converted_and_trained_on(place: Place, spark: Any) -> Any:
    lines = [f"{i % 3} {1 + i % 4}:{i}.5 {5 + i % 2}:{-i}" for i in range(10)]
    (place.folder / "points.txt").write_text("\n".join(lines))
    frame = spark.read.format("libsvm").option("numFeatures", "6").load(place.url("points.txt"))
    frame = frame.selectExpr("features", "CAST(label AS BIGINT) AS label").coalesce(1)
    converter = make_spark_converter(frame)
    quiet = {"num_epochs": 1, "reader_pool_type": "dummy", "shuffle_row_groups": False}
    with converter.make_torch_dataloader(batch_size=4, **quiet) as loader:
        batches = list(loader)
    losses = _losses(_Model(6), ((batch["features"], batch["label"]) for batch in batches))
    with converter.make_tf_dataset(batch_size=4, **quiet) as dataset:
        pairs = dataset.map(lambda row: (tf.reshape(row.features, [-1, 2, 3]), row.label))
        shapes = [[tuple(x.shape), y.numpy().tolist()] for x, y in pairs]
    rows = len(converter)
    converter.delete()
    return [rows, batches[0], losses, shapes]
