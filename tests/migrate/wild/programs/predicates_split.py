from petastorm.predicates import PredicateBase, in_pseudorandom_split, in_intersection, in_lambda
from petastorm import make_reader


class Every(PredicateBase):
    def __init__(self, n):
        self.n = n

    def get_fields(self):
        return {"id"}

    def do_include(self, values):
        return values["id"] % self.n == 0


def ids(url, predicate):
    with make_reader(url, predicate=predicate, reader_pool_type="dummy") as r:
        return sorted(int(row.id) for row in r)


def main(spark, directory):
    spark.range(0, 40, 1, 2).selectExpr("id", "concat('user', id) as user", "array(id, id + 1) as tags").write.parquet(directory + "/u")
    url = "file://" + directory + "/u"
    parts = [ids(url, in_pseudorandom_split([0.6, 0.4], i, "user")) for i in (0, 1)]
    counter = []
    return {"train": parts[0], "val": parts[1], "every": ids(url, Every(7)),
            "state": ids(url, in_lambda(["id"], lambda i, state: i < 3, counter)),
            "tags": ids(url, in_intersection([4], "tags"))}
