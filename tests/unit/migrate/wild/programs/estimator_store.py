"""Mini version of our estimator platform: stores, backends, readers behind an ABC."""
import abc
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional

import numpy as np
from petastorm import TransformSpec, make_batch_reader
from petastorm.pytorch import BatchedDataLoader
from petastorm.tf_utils import make_petastorm_dataset


@dataclass
class ReaderConfig:
    petastorm_reader_pool_type: str = "thread"
    workers_count: int = 2
    extra: dict = field(default_factory=dict)

    def to_kwargs(self):
        return dict(reader_pool_type=self.petastorm_reader_pool_type, workers_count=self.workers_count, **self.extra)


class Store(abc.ABC):
    @abc.abstractmethod
    def get_full_url(self, part: str) -> str: ...


class LocalStore(Store):
    def __init__(self, prefix):
        self.prefix = prefix

    def get_full_url(self, part):
        return "file://" + self.prefix + "/" + part


class Backend(abc.ABC):
    registry: Dict[str, "Backend"] = {}

    def __init_subclass__(cls, name: str, **kw):
        Backend.registry[name] = cls
        super().__init_subclass__(**kw)

    def __init__(self, store: Store, conf: Optional[ReaderConfig] = None):
        self.store, self.conf = store, conf or ReaderConfig()

    def open(self, part, transform: Callable = None, columns: List[str] = None):
        spec = TransformSpec(transform, removed_fields=["drop_me"]) if transform else None
        return make_batch_reader(self.store.get_full_url(part), num_epochs=1, transform_spec=spec,
                                 schema_fields=columns, **self.conf.to_kwargs())

    @abc.abstractmethod
    def batches(self, part): ...


class TorchBackend(Backend, name="torch"):
    def batches(self, part):
        def fn(pdf):
            pdf["z"] = pdf["z"] + 1
            return pdf.drop(columns=["drop_me"])
        with BatchedDataLoader(self.open(part, fn), batch_size=4) as loader:
            for b in loader:
                yield {k: v.numpy() for k, v in b.items()}


class TFBackend(Backend, name="tf"):
    def batches(self, part):
        with self.open(part, columns=["id", "z"]) as reader:
            for b in make_petastorm_dataset(reader).unbatch().batch(4):
                yield {k: v.numpy() for k, v in b._asdict().items()}


def main(spark, directory):
    spark.range(0, 10, 1, 1).selectExpr("id", "float(id) as z", "0 as drop_me").write.parquet(directory + "/train")
    out = {}
    for name in sorted(Backend.registry):
        b = list(Backend.registry[name](LocalStore(directory), ReaderConfig(extra={"shuffle_row_groups": False})).batches("train"))
        out[name] = {"keys": sorted(b[0]), "z": np.concatenate([x["z"] for x in b]).tolist(), "sizes": [len(x["id"]) for x in b]}
    return out
