"""Convert a table and train on it in one Spark application, with one process per executor.

On one of the hosts of the cluster::

    spark-submit --master spark://HOST:7077 train_spark.py s3://bucket/cache
"""

import sys

from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession

from mdstorm.spark import make_spark_converter

ROWS = 100_000


def train(converter, epochs):
    """Train in one of the processes; every process calls this function."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = converter.make_torch_dataloader(
        batch_size=500, num_epochs=1, cur_shard="auto", shuffling_queue_capacity=5_000
    )
    report = []
    for epoch in range(epochs):
        seen = torch.zeros(len(converter), dtype=torch.int32)
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"]).squeeze(), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen[batch["id"]] += 1
        dist.all_reduce(seen)
        lost, doubled = int((seen == 0).sum()), int((seen > 1).sum())
        report.append(f"epoch {epoch}: {len(seen):,} rows, {lost} lost, {doubled} doubled")
    del model  # free it before its process group is destroyed
    dist.destroy_process_group()
    return report


spark = SparkSession.builder.appName("train").getOrCreate()
df = spark.range(ROWS).selectExpr(
    "id", "transform(sequence(1, 16), n -> cos(id * n)) AS x", f"2 * id / {ROWS} AS y"
)
converter = make_spark_converter(df, 1 << 18, parent_cache_dir_url=sys.argv[1])
distributor = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
print("\n".join(distributor.run(train, converter, 3)))
spark.stop()
