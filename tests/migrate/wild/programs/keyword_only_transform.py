import numpy as np
from petastorm import TransformSpec as TS
from petastorm.spark import SparkDatasetConverter as SDC, make_spark_converter as msc


def get_transform_spec(training=True, width=3):
    fields = [('img', np.float32, (1, width), False)]
    return TS(func=lambda pdf: pdf.assign(img=pdf['raw'].map(lambda b: np.frombuffer(bytes(b), np.uint8).astype(np.float32)[None]))[['img', 'label'] if training else ['img']],
              edit_fields=[*fields], selected_fields=['img', 'label'] if training else ['img'])


def main(spark, directory):
    spark.conf.set(SDC.PARENT_CACHE_DIR_URL_CONF, 'file://' + directory)
    conv = msc(spark.range(0, 4, 1, 1).selectExpr("binary('abc') as raw", 'id as label'))
    res = {}
    for training in (True, False):
        with conv.make_torch_dataloader(transform_spec=get_transform_spec(training), num_epochs=1, batch_size=4, workers_count=1) as l:
            res[str(training)] = {k: list(v.shape) for b in l for k, v in sorted(b.items())}
    return res
