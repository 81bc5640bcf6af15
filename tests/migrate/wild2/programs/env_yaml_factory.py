import json
import logging.config
import os

LOGGING = {
    'version': 1, 'disable_existing_loggers': False,
    'handlers': {'null': {'class': 'logging.NullHandler'}},
    'loggers': {'petastorm': {'level': 'ERROR', 'handlers': ['null'], 'propagate': False},
                'petastorm.reader': {'level': 'CRITICAL'}},
}
CONFIG = """
reader:
  class: petastorm.make_batch_reader
  kwargs: {workers_count: 1, num_epochs: 1}
loader:
  class: petastorm.pytorch.BatchedDataLoader
  kwargs: {batch_size: 4}
"""


def tiny_yaml(text):
    """Only what we need of YAML, PyYAML is not on the cluster."""
    doc, top = {}, None
    for line in filter(str.strip, text.splitlines()):
        if not line.startswith(' '):
            top = doc.setdefault(line.rstrip(':'), {})
        else:
            k, v = line.strip().split(': ', 1)
            top[k] = dict((p.split(': ')[0], int(p.split(': ')[1])) for p in v.strip('{}').split(', ')) if v[0] == '{' else v
    return doc


def import_string(dotted):
    module, name = dotted.rsplit('.', 1)
    return getattr(__import__(module, fromlist=[name]), name)


def main(spark, directory):
    logging.config.dictConfig(LOGGING)
    os.environ.setdefault('PETASTORM_HOME', directory)
    os.environ['SPARK_PETASTORM_OPTS'] = '--conf spark.petastorm=1'
    spark.range(10).coalesce(1).write.parquet(os.path.join(os.environ['PETASTORM_HOME'], 'yml') if False else directory + '/yml')
    cfg = tiny_yaml(CONFIG)
    reader = import_string(cfg['reader']['class'])('file://' + directory + '/yml', **cfg['reader']['kwargs'])
    with import_string(cfg['loader']['class'])(reader, **cfg['loader']['kwargs']) as loader:
        sizes = [len(b['id']) for b in loader]
    return [sizes, sorted(cfg), logging.getLogger('petastorm.reader').level]
