import pytorch_lightning as pl
from petastorm import make_reader, make_batch_reader
from petastorm.pytorch import DataLoader, InMemBatchedDataLoader
from petastorm.reader import Reader
import petastorm.predicates as preds


class DM(pl.LightningDataModule):
    def __init__(self, url: str, reader_cls: "type[Reader]" = Reader):
        super().__init__()
        self.save_hyperparameters(ignore=['reader_cls'])

    def train_dataloader(self):
        return DataLoader(make_reader(self.hparams.url, num_epochs=None, cur_shard=self.trainer.global_rank,
                                      shard_count=self.trainer.world_size, reader_pool_type='process'),
                          batch_size=32, collate_fn=self.collate)

    def val_dataloader(self):
        r = make_batch_reader(self.hparams.url, predicate=preds.in_set({1}, 'fold'))
        return InMemBatchedDataLoader(r, batch_size=8, num_epochs=1, rows_capacity=10000)
