"""rank-aware training loop, no torch.distributed needed"""
import os, sys, math, json, argparse, logging
from dataclasses import dataclass, asdict
import torch
from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader as Loader
import petastorm.pytorch
log = logging.getLogger('train')

@dataclass
class Args:
    data_url: str
    world_size: int = int(os.environ.get('WORLD_SIZE', 2))
    backend: str = os.environ.get('DATA_BACKEND', 'petastorm')
    max_steps: int = 3
    seed: int = 0

def loader_for(args: Args, rank: int):
    if args.backend == 'petastorm':
        reader = make_batch_reader(args.data_url, cur_shard=rank, shard_count=args.world_size, num_epochs=None,
                                   seed=args.seed, shard_seed=args.seed, shuffle_rows=True, workers_count=1)
        return Loader(reader, batch_size=4, shuffling_queue_capacity=0, transform_fn=torch.tensor)
    elif args.backend in ('webdataset', 'mds'):
        raise NotImplementedError(args.backend)
    raise ValueError('backend must be "petastorm"')

def main(spark, directory):
    spark.range(32).selectExpr('cast(id as float) x').repartition(4).write.parquet(directory + '/ddp')
    args = Args('file://' + directory + '/ddp')
    seen, errs = [], []
    for rank in range(args.world_size):
        with loader_for(args, rank) as loader:
            for step, batch in enumerate(loader):
                seen.append([rank, len(batch['x']), str(batch['x'].dtype)])
                if step + 1 >= args.max_steps: break
    for bad in ('mds', 'x'):
        try: loader_for(Args('', backend=bad), 0)
        except (NotImplementedError, ValueError) as e: errs.append(str(e))
    before = petastorm.pytorch.decimal_friendly_collate([{'a': 1}, {'a': 2}])['a'].tolist()
    return [seen, errs, before, asdict(args)['backend']]
