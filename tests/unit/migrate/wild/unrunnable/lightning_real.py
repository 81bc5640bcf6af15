import pytorch_lightning as pl
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm import TransformSpec
import torch, os


class PetastormDataModule(pl.LightningDataModule):
    def __init__(self, train_converter: SparkDatasetConverter, val_converter: "SparkDatasetConverter", device_id=0, device_count=1):
        self.train_converter, self.val_converter = train_converter, val_converter
        self.device_id, self.device_count = device_id, device_count
        self.prepare_data_per_node = False

    def train_dataloader(self):
        self.train_dataloader_context = self.train_converter.make_torch_dataloader(
            transform_spec=self._get_transform_spec(), num_epochs=None, cur_shard=self.device_id,
            shard_count=self.device_count, batch_size=32 * int(os.environ.get("WORLD_SIZE", 1)))
        return self.train_dataloader_context.__enter__()

    def _get_transform_spec(self):
        return TransformSpec(self.preprocess, edit_fields=[("features", torch.float32, (3,), False)], selected_fields=["features", "label"])

    def preprocess(self, batch):
        return batch

    def on_exception(self, e):
        self.teardown("fit")

    def teardown(self, stage):
        if hasattr(self, "train_dataloader_context"):
            self.train_dataloader_context.__exit__(None, None, None)


if __name__ == "__main__":
    trainer = pl.Trainer(limit_train_batches=10, reload_dataloaders_every_n_epochs=1)
    trainer.fit(pl.LightningModule(), datamodule=PetastormDataModule(make_spark_converter(df), make_spark_converter(df2)))
