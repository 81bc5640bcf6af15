from petastorm import make_batch_reader, TransformSpec


def main(spark, directory):
    spark.range(0, 6, 1, 2).write.parquet(directory + "/t")
    offset = 100
    spec = TransformSpec(lambda pdf: pdf.assign(id=pdf["id"] + offset))
    with make_batch_reader("file://" + directory + "/t", reader_pool_type="process", workers_count=1,
                           transform_spec=spec, results_queue_size=10, zmq_copy_buffers=False, hdfs_driver="libhdfs") as r:
        return sorted(int(i) for b in r for i in b.id)
