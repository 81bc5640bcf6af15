from petastorm.reader import ThreadPool, ProcessPool, DummyPool, Reader, make_reader, logger, six
from petastorm.fs_utils import FilesystemResolver
from petastorm.hdfs.namenode import HdfsNamenodeResolver
from petastorm.benchmark.throughput import reader_throughput
from petastorm.tests.test_common import create_test_dataset

resolver = FilesystemResolver("hdfs:///x", hadoop_configuration=None, hdfs_driver="libhdfs")
fs = resolver.filesystem()
print(reader_throughput("file:///x", ["id"]), fs.ls(resolver.get_dataset_path()))
