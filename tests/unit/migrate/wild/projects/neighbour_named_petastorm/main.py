import os
import sys


def main(spark, directory):
    sys.modules.pop("petastorm", None)
    import petastorm
    found = petastorm.make_batch_reader("x")
    own = os.path.dirname(petastorm.__file__) == os.path.dirname(__file__)
    sys.modules.pop("petastorm", None)
    return [found, own]
