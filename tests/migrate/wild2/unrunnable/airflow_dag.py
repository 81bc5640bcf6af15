from datetime import timedelta
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonVirtualenvOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator


def check(url):
    from petastorm.etl.dataset_metadata import get_schema_from_dataset_url
    print(get_schema_from_dataset_url(url))


with DAG('petastorm_etl', schedule_interval='@daily', tags=['petastorm'], catchup=False) as dag:
    gen = SparkSubmitOperator(task_id='generate', application='/opt/jobs/generate_petastorm.py',
                              py_files='/opt/wheels/petastorm-0.11.4-py2.py3-none-any.whl',
                              conf={'spark.executorEnv.PETASTORM_CACHE': '/tmp'}, retry_delay=timedelta(minutes=1))
    meta = BashOperator(task_id='metadata', bash_command='petastorm-generate-metadata.py --dataset_url {{ params.url }} --hdfs-driver libhdfs')
    verify = PythonVirtualenvOperator(task_id='verify', python_callable=check, requirements=['petastorm==0.11.4', 'pyspark'],
                                      op_args=['hdfs:///warehouse/petastorm/x'])
    gen >> meta >> verify
