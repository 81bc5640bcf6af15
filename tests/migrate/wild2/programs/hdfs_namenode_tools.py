from unittest.mock import MagicMock, patch
from petastorm.fs_utils import FilesystemResolver
from petastorm.hdfs.namenode import HdfsNamenodeResolver, HdfsConnectError, MaxFailoversExceeded
from petastorm.errors import *
from petastorm import make_reader


class FakeConnector:
    calls = []

    @classmethod
    def hdfs_connect_namenode(cls, url, driver='libhdfs3', user=None):
        cls.calls.append((url.netloc, driver, user))
        return MagicMock(name='hdfs')

    @classmethod
    def connect_to_either_namenode(cls, namenodes, user=None):
        cls.calls.append(tuple(namenodes))
        return MagicMock(name='ha')


CONF = {'fs.defaultFS': 'hdfs://prod', 'dfs.nameservices': 'prod', 'dfs.ha.namenodes.prod': 'a,b',
        'dfs.namenode.rpc-address.prod.a': 'h1:8020', 'dfs.namenode.rpc-address.prod.b': 'h2:8020'}


def main(spark, directory):
    res = HdfsNamenodeResolver(CONF)
    out = [list(res.resolve_hdfs_name_service('prod')), res.resolve_default_hdfs_service()[0]]
    r = FilesystemResolver('hdfs://h9:8020/data/petastorm', CONF, connector=FakeConnector, hdfs_driver='libhdfs', user='me')
    out += [r.get_dataset_path(), FakeConnector.calls[0][0], FakeConnector.calls[0][2]]
    out.append(issubclass(HdfsConnectError, IOError) and issubclass(MaxFailoversExceeded, RuntimeError))
    with patch('petastorm.hdfs.namenode.HdfsConnector.hdfs_connect_namenode') as m:
        assert not m.called
    return out
