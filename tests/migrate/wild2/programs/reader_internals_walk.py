import os
from operator import attrgetter
from petastorm import make_batch_reader


def describe(reader):
    ds = reader.dataset
    pieces = sorted(ds.pieces, key=attrgetter('path'))
    return {'files': len(pieces), 'rows': sum(p.get_metadata().num_rows for p in pieces),
            'ext': {os.path.splitext(p.path)[1] for p in pieces} == {'.parquet'},
            'partitions': [p.name for p in (ds.partitions or [])]}


def main(spark, directory):
    spark.range(12).selectExpr('id', 'id % 3 as part').repartition(3, 'part').write.partitionBy('part').parquet(directory + '/w')
    with make_batch_reader('file://' + directory + '/w', num_epochs=2, workers_count=2, seed=5) as reader:
        info = describe(reader)
        info['schema'] = [(f.name, f.numpy_dtype.__name__, str(f.shape), f.nullable) for f in reader.schema.fields.values()]
        n = sum(len(b.part) for b in reader)
        info['state'] = [n, reader.last_row_consumed, reader.batched_output, reader.ngram, reader.num_epochs]
        info['diag'] = 'output_queue_size' in reader.diagnostics
        reader.reset()
        info['again'] = sum(int(b.id.sum()) for b in reader)
        info['stopped'] = reader.stopped
    info['after'] = reader.stopped
    return info
