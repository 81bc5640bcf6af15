import abc
from importlib import import_module


class BaseStore(abc.ABC):
    def __init__(self, cfg):
        self.cfg = cfg

    @abc.abstractmethod
    def materialize(self, df): ...

    @abc.abstractmethod
    def loader(self, handle, **kw): ...


class PetastormStore(BaseStore):
    """Intermediate data through petastorm's Spark converter."""

    def __init__(self, cfg):
        super().__init__(cfg)
        self._spark_mod = import_module('petastorm.spark')

    def materialize(self, df):
        spark = df.sparkSession
        spark.conf.set(self.cfg.SPARK_KEY, 'file://%s/est' % self.cfg.workdir)
        return self._spark_mod.make_spark_converter(df.repartition(2), compression_codec=self.cfg.compression,
                                                    dtype='float64')

    def loader(self, handle, **kw):
        from petastorm.pytorch import BatchedDataLoader as BDL
        return handle.make_torch_dataloader(data_loader_fn=BDL, num_epochs=1, **dict(self.cfg.reader_kwargs, **kw))


_STORES = {'petastorm': PetastormStore}


def open_store(cfg):
    try:
        return _STORES[cfg.backend](cfg)
    except KeyError:
        raise ValueError('unknown backend %r; choose from: %s' % (cfg.backend, ', '.join(_STORES)))
