import unittest

from petastorm.errors import NoDataAvailableError
from petastorm.reader import Reader
from petastorm.tests.test_common import TestSchema  # noqa: F401  (their schema is handy)

import data_access
from fixtures import STATE


class DataAccessTest(unittest.TestCase):
    def test_all(self):
        self.assertEqual(data_access.count_rows(STATE['url']), 12)

    def test_schema_name(self):
        self.assertIn('id', TestSchema.fields)

    def test_too_many_shards(self):
        with self.assertRaises(NoDataAvailableError):
            data_access.loader_for(STATE['url'], 4, 5)
        with self.assertLogs('data_access', 'WARNING') as logs:
            self.assertEqual(data_access.count_rows(STATE['url'], cur_shard=4, shard_count=5), 0)
        self.assertTrue(logs.output[0].startswith('WARNING:data_access:petastorm: '))

    def test_loader(self):
        with data_access.loader_for(STATE['url'], 0, 2) as loader:
            self.assertIsInstance(loader.reader, Reader)
            self.assertGreater(len(list(loader)), 0)
