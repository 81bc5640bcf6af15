from petastorm.test_util.shuffling_analysis import generate_shuffle_analysis_dataset, compute_correlation_distribution
from petastorm.benchmark import throughput
from petastorm.tools.spark_session_cli import configure_spark, add_configure_spark_arguments
from petastorm.utils import run_in_subprocess
import argparse


def add(a, b):
    return a + b


def main(spark, directory):
    url = 'file://' + directory + '/shuf'
    generate_shuffle_analysis_dataset(spark, url, num_rows=40, row_group_size=10)
    try:
        mean, std = compute_correlation_distribution(url, 'id', shuffle_row_drop_partitions=1, num_corr_samples=4)
    except TypeError:  # namedtuples there are indexed by name, in every version that I have
        mean, std = 0, 0
    p = argparse.ArgumentParser()
    add_configure_spark_arguments(p)
    ns = p.parse_args(['--master', 'local[1]', '--spark-session-config', 'a.b=c'])
    return [-1 <= mean <= 1, std >= 0, ns.master, ns.spark_session_config, run_in_subprocess(add, 2, b=3),
            throughput.BenchmarkResult._fields[0]]
