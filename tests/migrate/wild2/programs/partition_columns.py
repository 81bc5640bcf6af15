import petastorm as ps
from petastorm import predicates as pr, TransformSpec


def batches(url, **kw):
    with ps.make_batch_reader(url, reader_pool_type='dummy', shuffle_row_groups=False, **kw) as r:
        return [b._asdict() for b in r]


def main(spark, directory):
    spark.range(20).selectExpr('id', 'concat("c", id % 2) as country', 'id % 4 as bucket') \
        .write.partitionBy('country', 'bucket').parquet(directory + '/h')
    url = 'file://' + directory + '/h'
    out = {'n': sum(len(b['id']) for b in batches(url)), 'fields': sorted(batches(url)[0])}
    c1 = batches(url, filters=[('country', '=', 'c1')])
    out['filters'] = [sum(len(b['id']) for b in c1), sorted({str(c) for b in c1 for c in b['country']})]
    dnf = batches(url, filters=[[('country', '=', 'c0'), ('bucket', '=', 0)], [('bucket', 'in', [3])]])
    out['dnf'] = sorted(int(i) for b in dnf for i in b['id'])
    out['pred'] = sorted(int(i) for b in batches(url, predicate=pr.in_lambda(['country'], lambda c: c.isin({'c0'}))) for i in b['id'])
    out['view'] = sorted(batches(url, schema_fields=['id', 'coun.*'])[0])
    one = [len(batches(url, cur_shard=i, shard_count=3, seed=0)) for i in range(3)]
    out['shards'] = [sum(one), len(one)]
    return out
