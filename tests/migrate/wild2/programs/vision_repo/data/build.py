from pydoc import locate

import numpy as np


def instantiate(node, *args, **extra):
    """poor man's hydra.utils.instantiate"""
    kw = {k: v for k, v in node.items() if k != '_target_'}
    return locate(node['_target_'])(*args, **dict(kw, **extra))


def build_dataset(spark, cfg):
    from petastorm.etl.dataset_metadata import materialize_dataset
    from petastorm.unischema import dict_to_spark_row
    schema, url = locate(cfg['data']['schema']), cfg['data']['root']
    rows = [{'noun_id': 'n%05d' % i, 'image': np.full((6 + i, 5, 3), i, np.uint8),
             'boxes': np.ones((i, 4), np.float32)} for i in range(cfg['data']['rows'])]
    with materialize_dataset(spark, url, schema, 2):
        spark.createDataFrame([dict_to_spark_row(schema, r) for r in rows], schema.as_spark_schema()) \
            .repartition(2).write.mode('overwrite').parquet(url)


def build_loader(cfg):
    from petastorm.transform import TransformSpec, edit_field
    spec = TransformSpec(_crop, edit_fields=[edit_field('image', np.float32, (3, 4, 4)),
                                             ('n_boxes', np.int64, (), False)],
                         removed_fields=['boxes', 'noun_id'])
    return instantiate(cfg['wrap'], instantiate(cfg['loader'], cfg['data']['root'], transform_spec=spec))


def _crop(row):
    row['n_boxes'] = np.int64(len(row.pop('boxes')))
    row.pop('noun_id')
    row['image'] = row['image'][:4, :4].transpose(2, 0, 1).astype(np.float32)
    return row
