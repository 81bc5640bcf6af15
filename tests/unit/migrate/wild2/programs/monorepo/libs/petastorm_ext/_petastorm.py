"""Our private defaults for petastorm readers"""


def defaults():
    return dict(workers_count=2, num_epochs=1)
