import os, petastorm, sys  # both
from petastorm import make_reader; from petastorm import TransformSpec \
    as T
from petastorm.pytorch import (DataLoader
    as DL  # loader
    , BatchedDataLoader)


def use(args):
    petastorm = args.petastorm
    return petastorm.reader.make_reader("x")


class Names:
    petastorm = 3
    x = petastorm + 1


lst = [petastorm for petastorm in range(3)]
def f(a=petastorm.make_reader, *, b: petastorm.reader.Reader = None) -> petastorm.unischema.Unischema: ...
if True: import petastorm.tf_utils as tfu; x = tfu.make_petastorm_dataset
match x:
    case petastorm.reader.Reader(): pass
print(f"{petastorm.reader.make_reader!r:>{10}}", T, DL, "petastorm.trips")
