import ray
from ray import tune
from ray.train.torch import TorchTrainer


@ray.remote(runtime_env={"pip": ["petastorm>=0.12"], "env_vars": {"PETASTORM_LOG": "1"}})
def shard(url, i, n):
    from petastorm import make_batch_reader as mbr
    with mbr(url, cur_shard=i, shard_count=n) as r:
        return sum(len(b[0]) for b in r)


def trainable(config):
    import petastorm.pytorch, petastorm.reader
    loader = petastorm.pytorch.BatchedDataLoader(petastorm.reader.make_batch_reader(config["url"]), config["bs"])
    tune.report(n=sum(1 for _ in loader))


tune.run(trainable, name="petastorm_tune", config={"url": "s3://bucket/petastorm", "bs": tune.choice([8, 16])})
