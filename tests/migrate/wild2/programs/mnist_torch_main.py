###
# MNIST, reimplemented on top of a petastorm dataset (see the original pytorch example).
###
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from pyspark.sql.types import LongType

import petastorm.etl.dataset_metadata as dsm
from petastorm import make_reader, TransformSpec
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.pytorch import DataLoader
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

MnistSchema = Unischema('MnistSchema', [
    UnischemaField('idx', np.int_, (), ScalarCodec(LongType()), False),
    UnischemaField('digit', np.int_, (), ScalarCodec(LongType()), False),
    UnischemaField('image', np.uint8, (28, 28), NdarrayCodec(), False),
])


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc = nn.Linear(784, 10)

    # pylint: disable=arguments-differ
    def forward(self, x):
        return F.log_softmax(self.fc(x.view(-1, 784)), dim=1)


def _transform_row(mnist_row):
    # For this example, the images are stored as simpler ndarray (28,28), but the
    # training network expects 3-dim images, hence the additional lambda transform.
    return {'image': (mnist_row['image'][None].astype(np.float32) / 255. - 0.1307) / 0.3081,
            'digit': mnist_row['digit']}


def train(model, device, train_loader, log_interval, optimizer, epoch):
    model.train()
    seen = 0
    for batch_idx, row in enumerate(train_loader):
        data, target = row['image'].to(device), row['digit'].to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        seen += len(data)
    return seen, str(data.dtype), str(target.dtype)


def mnist_data_to_petastorm_dataset(spark, output_url, n):
    rng = np.random.RandomState(7)
    rows = [{'idx': i, 'digit': i % 10, 'image': rng.randint(0, 255, (28, 28)).astype(np.uint8)} for i in range(n)]
    with dsm.materialize_dataset(spark, output_url, MnistSchema, 1):
        df = spark.createDataFrame([dict_to_spark_row(MnistSchema, r) for r in rows], MnistSchema.as_spark_schema())
        df.repartition(2).write.option('compression', 'none').parquet(output_url)


def main(spark, directory):
    parser = argparse.ArgumentParser(description='Petastorm MNIST Example')
    parser.add_argument('--dataset-url', default='file://{}/mnist'.format(directory),
                        metavar='S', help='hdfs:// or file:/// URL to the MNIST petastorm dataset')
    parser.add_argument('--batch-size', type=int, default=8)
    parser.add_argument('--all-epochs', action='store_true')
    parser.add_argument('--epochs', type=int, default=2)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args([])
    mnist_data_to_petastorm_dataset(spark, args.dataset_url, 30)

    torch.manual_seed(args.seed)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    loop_epochs, reader_epochs = (1, args.epochs) if args.all_epochs else (args.epochs, 1)
    transform = TransformSpec(_transform_row, removed_fields=['idx'],
                              edit_fields=[('image', np.float32, (1, 28, 28), False)])
    result = []
    for epoch in range(1, loop_epochs + 1):
        t0 = time.time()
        with DataLoader(make_reader('{}'.format(args.dataset_url), num_epochs=reader_epochs,
                                    transform_spec=transform),
                        batch_size=args.batch_size) as train_loader:
            result.append(train(model, 'cpu', train_loader, 10, optimizer, epoch))
        assert time.time() >= t0
    return result
