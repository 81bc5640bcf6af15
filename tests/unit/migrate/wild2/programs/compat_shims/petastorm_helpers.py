# a module of ours whose *name* begins with petastorm
PETASTORM_OPTIONS = {'workers_count': 2}


def count_rows(url):
    from compat.petastorm_compat import make_batch_reader
    with make_batch_reader(url, **PETASTORM_OPTIONS) as reader:
        return sum(len(b[0]) for b in reader)
