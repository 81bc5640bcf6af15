from petastorm.reader import (  # the readers
    Reader,
    ThreadPool,  # only there by accident
    make_batch_reader,
)
from petastorm.workers_pool.process_pool import ProcessPool  # noqa: F401
