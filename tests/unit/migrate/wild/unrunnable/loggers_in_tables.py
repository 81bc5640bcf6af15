import logging.config
import os

NOISY = ["petastorm", "py4j", "petastorm.spark.spark_dataset_converter"]
logging.config.dictConfig({"version": 1, "loggers": {"petastorm": {"level": "ERROR"}, "petastorm.reader": {"level": "INFO"}}})
for name in NOISY:
    logging.getLogger(name).setLevel(logging.ERROR)
os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning:petastorm"
assert type(os).__module__ != "petastorm.reader"
