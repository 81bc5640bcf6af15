import registry
from readers import *  # noqa: F401,F403  (registers itself)


def main(spark, directory):
    path = directory + '/plug'
    spark.range(9).selectExpr('id', 'id % 3 as k').repartition(3).write.parquet(path)
    out = {}
    for name in registry.names():
        with registry.build(name, 'file://' + path) as src:
            out[name] = sorted(int(x) for x in src.values())
    out['spec'] = registry.load_object('petastorm.transform:TransformSpec').__name__
    out['missing'] = registry.load_object('petastorm.nothing:Nope', default='no such thing')
    return out
