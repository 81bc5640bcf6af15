import json
import os
import pydoc


def build(cfg, *args):
    cfg = dict(cfg)
    return pydoc.locate(cfg.pop("_target_"))(*args, **cfg)


def main(spark, directory):
    with open(os.path.join(os.path.dirname(__file__), "conf.json")) as f:
        conf = json.load(f)
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    with build(conf["loader"], build(conf["reader"], "file://" + directory + "/t")) as loader:
        return [conf["experiment"]] + [b["id"].tolist() for b in loader]
