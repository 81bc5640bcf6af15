import logging

import petastorm

VERSION = petastorm.__version__
log = logging.getLogger(__name__)


class Run:
    version = petastorm.__version__

    def tags(self):
        return {"library": self.version.split("+")[0], "rows": 3}


def main(spark, directory):
    tags = Run().tags()
    log.info("reading with %s", VERSION)
    return {"shown": bool(VERSION), "tags": sorted(tags), "many": tags["rows"] > 2}
