from itertools import product


def grid(**axes):
    for values in product(*axes.values()):
        yield dict(zip(axes, values))
