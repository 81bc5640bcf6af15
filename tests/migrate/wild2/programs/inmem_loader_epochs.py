import torch
from petastorm import make_batch_reader, make_reader
from petastorm.pytorch import InMemBatchedDataLoader, BatchedDataLoader, DataLoader, LoaderBase


def main(spark, directory):
    url = 'file://' + directory + '/m'
    spark.range(20).selectExpr('id', 'cast(id as float) / 2 as f', 'id > 4 as flag').coalesce(1).write.parquet(directory + '/m')
    res = {}
    with InMemBatchedDataLoader(make_batch_reader(url, num_epochs=1), batch_size=6, num_epochs=3, rows_capacity=100,
                                shuffle=False, seed=0) as ld:
        res['inmem'] = [b['id'].tolist() for b in ld][:4]
    with BatchedDataLoader(make_batch_reader(url), batch_size=8, transform_fn=lambda a: torch.as_tensor(a) * 2) as ld:
        res['batched'] = [(k, str(v.dtype)) for k, v in sorted(next(iter(ld)).items())]
    reader = make_batch_reader(url, workers_count=1)
    ld = DataLoader(reader, batch_size=20)
    first = sum(b['f'].sum().item() for b in ld)
    second = sum(b['f'].sum().item() for b in ld)     # second pass resets the reader
    res['passes'] = [first, second, isinstance(ld, LoaderBase)]
    it = iter(ld); next(it)
    res['parallel'] = 'allowed'
    try:
        next(iter(ld))
    except RuntimeError as e:
        res['parallel'] = str(e).split('.')[0]
    reader.stop(); reader.join()
    return res
