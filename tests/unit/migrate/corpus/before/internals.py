from petastorm.reader import (  # the readers
    ArrowReaderWorker,  # only there by accident
    Reader,
    ThreadPool,  # as well
    make_batch_reader,
)
from petastorm.workers_pool.process_pool import ProcessPool  # noqa: F401
from petastorm.workers_pool.ventilator import ConcurrentVentilator  # noqa: F401
