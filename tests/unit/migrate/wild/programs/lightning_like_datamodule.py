# Lightning-style module; Lightning itself is optional on our cluster
try:
    import pytorch_lightning as pl
    Base = pl.LightningDataModule
except ImportError:
    Base = object

from petastorm.spark import make_spark_converter, SparkDatasetConverter


class DataModule(Base):

    def __init__(self, df, directory, batch_size=4):
        super().__init__()
        self.df, self.batch_size = df, batch_size
        self.directory = directory
        self.train_ctx = None

    def prepare_data(self):
        self.df.sparkSession.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + self.directory)

    def setup(self, stage=None):
        self.converter: SparkDatasetConverter = make_spark_converter(self.df)

    def train_dataloader(self):
        if self.train_ctx:
            self.train_ctx.__exit__(None, None, None)
        self.train_ctx = self.converter.make_torch_dataloader(
            num_epochs=1, batch_size=self.batch_size, cur_shard=0, shard_count=1,
            reader_pool_type='dummy')
        self.train_dataloader_obj = self.train_ctx.__enter__()
        return self.train_dataloader_obj

    def teardown(self, stage=None):
        self.train_ctx.__exit__(None, None, None)
        self.converter.delete()


def main(spark, directory):
    dm = DataModule(spark.range(10).repartition(1), directory)
    dm.prepare_data()
    dm.setup()
    epochs = []
    for epoch in range(2):
        epochs.append(sorted(i for b in dm.train_dataloader() for i in b['id'].tolist()))
    dm.teardown()
    return epochs
