import jobs
import schemas
from checks import run_checks
from common.urls import dataset_url


def main(spark, directory):
    url = dataset_url(directory, 'events')
    jobs.write_day(spark, url, '2021-01-01', range(0, 10))
    jobs.append_day(spark, url, '2021-01-02', range(10, 16))
    return run_checks(spark, url, schemas.EventSchema)
