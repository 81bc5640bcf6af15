"""DataModule without lightning itself (runs in the smoke tests of the team)."""
from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import Callable, Iterator, Optional, Union

import torch

import petastorm.pytorch as ptorch
from petastorm import make_batch_reader
from petastorm.reader import Reader
from petastorm.transform import TransformSpec


class LightningDataModule:  # stand-in
    def prepare_data(self): pass
    def setup(self, stage=None): pass


class PetastormDataModule(LightningDataModule):
    def __init__(self, train_url: str, val_url: Optional[str] = None, *, batch_size: int = 4, rank=0, world_size=1,
                 transform: Union[TransformSpec, Callable, None] = None):
        self.train_url, self.val_url, self.batch_size = train_url, val_url or train_url, batch_size
        self.rank, self.world_size = rank, world_size
        self.transform = transform if isinstance(transform, TransformSpec) or transform is None else TransformSpec(transform)
        self._stack = ExitStack()

    def _reader(self, url, epochs) -> Reader:
        return self._stack.enter_context(make_batch_reader(
            url, num_epochs=epochs, transform_spec=self.transform, cur_shard=self.rank, shard_count=self.world_size,
            seed=42, shuffle_row_groups=True))

    def train_dataloader(self) -> ptorch.BatchedDataLoader:
        return ptorch.BatchedDataLoader(self._reader(self.train_url, None), batch_size=self.batch_size)

    def val_dataloader(self) -> "ptorch.DataLoader":
        return ptorch.DataLoader(self._reader(self.val_url, 1), batch_size=self.batch_size,
                                 collate_fn=ptorch.decimal_friendly_collate)

    def teardown(self, stage=None):
        self._stack.close()


def _scale(df):
    df['x'] = df['x'] / 2
    return df


def _scale_only_x(df):
    return _scale(df)[['x']]


def main(spark, directory):
    spark.range(16).selectExpr('cast(id as double) x', 'cast(id % 2 as int) y').repartition(2).write.parquet(directory + '/dm')
    out = []
    for transform in (None, _scale, TransformSpec(_scale_only_x, selected_fields=['x'])):
        dm = PetastormDataModule('file://' + directory + '/dm', transform=transform)
        dm.setup('fit')
        train = iter(dm.train_dataloader())
        batches = [next(train) for _ in range(10)]
        val = list(dm.val_dataloader())
        out.append([sorted(val[0]), sum(float(b['x'].sum()) for b in val), len(batches), str(batches[0]['x'].dtype)])
        dm.teardown()
    return out
