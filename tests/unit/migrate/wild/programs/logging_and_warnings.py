import logging
import warnings

logging.getLogger("petastorm").setLevel(logging.ERROR)
logging.getLogger('petastorm.spark.spark_dataset_converter').propagate = False
warnings.filterwarnings("ignore", category=FutureWarning, module="petastorm")
warnings.filterwarnings("ignore", module=r"petastorm\..*")

import petastorm  # noqa: E402
from petastorm.spark import SparkDatasetConverter, make_spark_converter  # noqa: E402

log = logging.getLogger(__name__)


def main(spark, directory):
    log.debug("petastorm version %s", petastorm.__version__)
    spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file://" + directory + "/petastorm")
    conv = make_spark_converter(spark.range(0, 3, 1, 1).selectExpr("id", "id * 1.5D as x"))
    with conv.make_torch_dataloader(num_epochs=1, batch_size=3, workers_count=1) as dl:
        return [[k, str(v.dtype), v.tolist()] for b in dl for k, v in b.items()]
