import sys
import unittest
from unittest import mock

import data_access


class Fake:
    def __init__(self, batches):
        self.batches = batches

    def __enter__(self):
        return iter(self.batches)

    def __exit__(self, *a):
        return False


class MockTest(unittest.TestCase):
    @mock.patch('petastorm.make_batch_reader')
    def test_patched_by_name(self, factory):
        factory.return_value = Fake([([1, 2],), ([3],)])
        self.assertEqual(data_access.count_rows('file:///x', seed=1), 3)
        factory.assert_called_once_with('file:///x', seed=1)

    def test_patch_object(self):
        with mock.patch.object(data_access.petastorm, 'make_batch_reader', return_value=Fake([])) as m:
            self.assertEqual(data_access.count_rows('file:///x'), 0)
        assert m.called

    @mock.patch.dict('sys.modules', {'petastorm.pytorch': mock.MagicMock()})
    def test_without_torch(self):
        with mock.patch('data_access.petastorm.make_batch_reader'):
            data_access.loader_for('file:///x', 0, 1)
        sys.modules['petastorm.pytorch'].DataLoader.assert_called_once()
