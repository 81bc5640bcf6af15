"""The project's own names, which stay."""
from src.petastorm_engine import petastorm_reader

from .petastorm import PetastormDataModule

petastorm_url = "hdfs:///petastorm/oaks"
engine = petastorm_reader(petastorm_url, petastorm_cache="petastorm", kind="petastorm")
petastorm = PetastormDataModule(engine)
petastorm.spark.make_spark_converter(None)
