# TODO(mdstorm): PM107: `petastorm.reader.ThreadPool` is not in mdstorm; this use stays with Petastorm until you replace it
from petastorm.reader import (  # the readers
    ThreadPool,  # only there by accident
)
from mdstorm.reader import (  # the readers
    Reader,
    make_batch_reader,
)
# TODO(mdstorm): PM107: `petastorm.workers_pool` is not in mdstorm; this use stays with Petastorm until you replace it
from petastorm.workers_pool.process_pool import ProcessPool  # noqa: F401
