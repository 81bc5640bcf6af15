from dataclasses import dataclass
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from petastorm.spark.spark_dataset_converter import SparkDatasetConverter


@dataclass
class FittedModel:
    history: List[list]
    backend: str
    n_rows: int


class TorchEstimator:
    def __init__(self, cfg, store):
        self.cfg, self.store = cfg, store

    def _steps(self, conv: 'SparkDatasetConverter') -> int:
        return (len(conv) + self.cfg.batch_size - 1) // self.cfg.batch_size

    def fit(self, df) -> FittedModel:
        conv = self.store.materialize(df)
        history = []
        for _ in range(self.cfg.epochs):
            with self.store.loader(conv, batch_size=self.cfg.batch_size) as loader:
                n = tot = 0
                for batch in loader:
                    n += 1
                    tot += float((batch['label'] - batch['feature']).sum())
                    assert str(batch['label'].dtype) == 'torch.float64'
                history.append([n, tot, n == self._steps(conv)])
        rows = len(conv)
        conv.delete()
        return FittedModel(history, self.cfg.backend, rows)
