import mlflow
import ray


@ray.remote
class Worker:
    def run(self, conv):
        from petastorm.spark.spark_dataset_converter import SparkDatasetConverter
        assert isinstance(conv, SparkDatasetConverter)
        with conv.make_torch_dataloader(num_epochs=1) as d:
            return sum(1 for _ in d)


mlflow.set_experiment("/Users/a/petastorm")
mlflow.log_param("loader", "petastorm")
mlflow.pytorch.log_model(None, "m", pip_requirements=["torch", "petastorm==0.12.1"])
mlflow.pyfunc.log_model("m", conda_env={"dependencies": ["python=3.9", {"pip": ["petastorm>=0.11", "mlflow"]}]})
ray.init(runtime_env={"pip": ["petastorm"]})
