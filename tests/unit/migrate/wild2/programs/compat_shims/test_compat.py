import unittest
from unittest.mock import patch

import petastorm_helpers


class T(unittest.TestCase):
    @patch('petastorm_helpers.PETASTORM_OPTIONS', {'workers_count': 1})
    @patch('compat.petastorm_compat.make_batch_reader')
    @patch('petastorm.reader.Reader')
    def test_count(self, reader, factory):
        factory.return_value.__enter__.return_value = iter([([1, 2],)])
        self.assertEqual(petastorm_helpers.count_rows('file:///x'), 2)
