"""Let Petastorm's loggers govern what mdstorm logs, where mdstorm stands in for Petastorm.

Programs silence Petastorm with ``logging.getLogger("petastorm").setLevel(…)``, or add handlers.
"""

from __future__ import annotations

import logging

#: Loggers of Petastorm's, and those of mdstorm that log the same; one that is above another first.
_PAIRS = {
    "petastorm": "mdstorm",
    "petastorm.pytorch": "mdstorm._torch.loader",
    "petastorm.reader": "mdstorm.reader",
    "petastorm.spark": "mdstorm.spark",
    "petastorm.spark.spark_dataset_converter": "mdstorm.spark.spark_dataset_converter",
}


def install() -> None:
    """Put each of Petastorm's loggers above that of mdstorm; again does nothing.

    Levels and handlers of both hold, those of ``mdstorm`` first: a record goes from
    ``mdstorm.reader`` to ``petastorm.reader``, ``mdstorm``, ``petastorm`` and the root logger.
    """
    for theirs, ours in _PAIRS.items():
        logging.getLogger(ours.rpartition(".")[0])  # made later, it would take theirs' place
        below, above = logging.getLogger(ours), logging.getLogger(theirs)
        if below.parent is not above:
            above.parent, below.parent = below.parent, above
    above.setLevel(above.level)  # forgets which levels loggers have had until now
