class Param:
    def __init__(self, doc):
        self.doc = doc


class EstimatorParams(object):
    batch_size = Param('batch size')
    train_reader_num_workers = Param('number of parallel petastorm reader workers (petastorm.make_batch_reader `workers_count`)')
    reader_pool_type = Param('Type of petastorm worker pool used to parallelize reading data from the dataset')
    _defaults = {'reader_pool_type': 'thread', 'transformation_fn': None}

    def __init__(self, **kwargs):
        self._values = dict(self._defaults, **kwargs)

    def get(self, name):
        return self._values[name]

    setReaderPoolType = lambda self, v: self._values.__setitem__('reader_pool_type', v)
