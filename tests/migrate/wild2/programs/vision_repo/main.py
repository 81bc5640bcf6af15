import config
from data.build import build_loader, build_dataset
from engine import run_epoch


def main(spark, directory):
    cfg = config.load({'data': {'root': 'file://' + directory + '/vision'}})
    build_dataset(spark, cfg)
    res = {}
    for pool in ('thread', 'dummy'):
        cfg['loader']['reader_pool_type'] = pool
        with build_loader(cfg) as loader:
            res[pool] = run_epoch(loader)
    return res
