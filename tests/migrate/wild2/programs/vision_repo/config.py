import copy
import json
import os

_DEFAULT = json.loads('''
{
  "data": {"root": null, "schema": "data.schema.ImageSchema", "rows": 8},
  "loader": {"_target_": "petastorm.make_reader", "workers_count": 2, "num_epochs": 1, "reader_pool_type": "thread"},
  "wrap": {"_target_": "petastorm.pytorch.DataLoader", "batch_size": 3}
}
''')


def load(override):
    cfg = copy.deepcopy(_DEFAULT)
    for k, v in override.items():
        cfg[k].update(v)
    return cfg
