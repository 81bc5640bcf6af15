from dataclasses import dataclass, field, asdict
from typing import Any, Optional

from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader, DataLoader


@dataclass
class DataConf:
    _target_: str = "petastorm.pytorch.DataLoader"
    backend: str = "petastorm"
    url: str = "???"
    batch_size: int = 4
    reader: dict = field(default_factory=lambda: dict(num_epochs=1, shuffle_row_groups=False))


def instantiate(cfg, *args, **kw):
    import importlib
    module, _, name = cfg._target_.rpartition(".")
    return getattr(importlib.import_module(module), name)(*args, **kw)


def main(spark, directory):
    spark.range(0, 6, 1, 1).write.parquet(directory + "/t")
    out = []
    for cfg in DataConf(url=f"file://{directory}/t"), DataConf("petastorm.pytorch.BatchedDataLoader", url=f"file://{directory}/t"):
        assert cfg.backend == "petastorm"
        with instantiate(cfg, make_batch_reader(cfg.url, **cfg.reader), batch_size=cfg.batch_size) as loader:
            out.append([b["id"].tolist() for b in loader])
    return out
