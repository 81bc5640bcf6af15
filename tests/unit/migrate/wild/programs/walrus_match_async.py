import asyncio
from petastorm import make_batch_reader as open_reader
import petastorm.pytorch


async def consume(url):
    out = []
    with petastorm.pytorch.DataLoader(open_reader(url, num_epochs=1), batch_size=2) as loader:
        it = iter(loader)
        while (batch := next(it, None)) is not None:
            out.append(batch["id"].tolist())
            await asyncio.sleep(0)
    return out


def main(spark, directory):
    spark.range(0, 5, 1, 1).write.parquet(f"{directory}/t")
    return {"rows": asyncio.run(consume(f"file://{directory}/t")), "f": f"{petastorm.pytorch.DataLoader.__name__!s}"}
