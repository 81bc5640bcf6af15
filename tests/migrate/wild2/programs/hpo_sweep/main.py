import objective
from search import grid


def main(spark, directory):
    with objective.session(spark, directory) as conv:
        best = min(grid(lr=[0.1, 0.5], bs=[5, 10]), key=lambda p: objective.run(conv, **p))
        return [best, len(conv), objective.SEEN]
