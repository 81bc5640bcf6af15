import argparse
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from petastorm import make_reader, TransformSpec
from petastorm.pytorch import DataLoader
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import LongType
import numpy as np


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def _transform_row(row):
    return {'image': (row['image'] / 10).astype(np.float32), 'digit': row['digit']}


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.net = Net()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=args.lr)
        self.seen = []

    def epoch(self, loader):
        for i, row in enumerate(loader):
            self.opt.zero_grad()
            loss = F.nll_loss(self.net(row['image']), row['digit'])
            loss.backward()
            self.opt.step()
            self.seen.append([row['digit'].tolist(), round(float(row['image'].sum()), 3)])

    def fit(self):
        transform = TransformSpec(_transform_row, removed_fields=['idx'],
                                  edit_fields=[('image', np.float32, (2, 2), False)])
        for _ in range(self.args.epochs):
            with DataLoader(make_reader(self.args.dataset_url, num_epochs=1, transform_spec=transform, seed=self.args.seed,
                                        shuffle_row_groups=False, reader_pool_type=self.args.pool),
                            batch_size=self.args.batch_size) as loader:
                self.epoch(loader)


def parse(argv):
    p = argparse.ArgumentParser(description="Petastorm MNIST Example")
    p.add_argument("--dataset-url", default="file:///tmp/petastorm_mnist")
    p.add_argument("--batch-size", type=int, default=2)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=.01)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--pool", choices=("thread", "process", "dummy"), default="dummy")
    return p.parse_args(argv)


def main(spark, directory):
    args = parse(["--dataset-url", "file://" + directory + "/mnist"])
    schema = Unischema('M', [UnischemaField('idx', np.int64, (), ScalarCodec(LongType()), False),
                             UnischemaField('digit', np.int64, (), ScalarCodec(LongType()), False),
                             UnischemaField('image', np.uint8, (2, 2), NdarrayCodec(), False)])
    with materialize_dataset(spark, args.dataset_url, schema):
        spark.createDataFrame([dict_to_spark_row(schema, {'idx': i, 'digit': i % 3, 'image': np.full((2, 2), i, np.uint8)})
                               for i in range(5)], schema.as_spark_schema()).coalesce(1).write.parquet(args.dataset_url)
    trainer = Trainer(args)
    trainer.fit()
    return trainer.seen


if __name__ == "__main__":
    print(parse(sys.argv[1:]))
