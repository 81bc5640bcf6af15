# TODO(mdstorm): PM107: `petastorm.reader.ArrowReaderWorker` and `ThreadPool` are not in mdstorm; the import from Petastorm stays until you replace it: see mdstorm's docs/differences.md#workers-and-their-queues
from petastorm.reader import (  # the readers
    ArrowReaderWorker,  # only there by accident
    Reader,
    ThreadPool,  # as well
    make_batch_reader,
)
from petastorm.workers_pool.process_pool import ProcessPool  # noqa: F401
from petastorm.workers_pool.ventilator import ConcurrentVentilator  # noqa: F401
