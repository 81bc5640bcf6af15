from airflow.operators.bash import BashOperator
from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

generate = BashOperator(task_id="petastorm_metadata", bash_command=
    "petastorm-generate-metadata.py --dataset_url hdfs:///x --unischema-class examples.S --master yarn")
copy = BashOperator(task_id="copy", bash_command="petastorm-copy-dataset.py file:///a file:///b --field-regex 'id'")
run = DatabricksSubmitRunOperator(task_id="train", json={
    "libraries": [{"pypi": {"package": "petastorm==0.12.1"}}],
    "new_cluster": {"spark_conf": {"petastorm.spark.converter.parentCacheDirUrl": "file:///dbfs/tmp/x"}}})
