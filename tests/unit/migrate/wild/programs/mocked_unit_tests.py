"""unit tests of our trainer; petastorm never runs"""
import unittest
from unittest import mock
from unittest.mock import MagicMock, patch

import petastorm.spark
from petastorm.spark import SparkDatasetConverter


def train(df):
    conv = petastorm.spark.make_spark_converter(df)
    with conv.make_torch_dataloader(batch_size=2) as loader:
        return sum(loader)


class TrainTest(unittest.TestCase):
    @patch("petastorm.spark.make_spark_converter")
    def test_sum(self, make):
        make.return_value.make_torch_dataloader.return_value.__enter__.return_value = [1, 2, 3]
        self.assertEqual(train(MagicMock()), 6)
        make.assert_called_once()

    def test_spec(self):
        conv = mock.create_autospec(SparkDatasetConverter, instance=True)
        with mock.patch.object(petastorm.spark, "make_spark_converter", return_value=conv) as m:
            conv.make_torch_dataloader.return_value.__enter__ = lambda s: [4]
            conv.make_torch_dataloader.return_value.__exit__ = lambda *a: None
            try:
                train(None)
            except (TypeError, AttributeError):
                pass
            self.assertTrue(m.called)

    @mock.patch.dict("sys.modules", {"petastorm_plugins": MagicMock()})
    def test_other_project(self):
        import petastorm_plugins
        self.assertTrue(petastorm_plugins)


def main(spark, directory):
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(TrainTest)
    result = unittest.TestResult()
    suite.run(result)
    return {"run": result.testsRun, "failures": len(result.failures), "errors": len(result.errors)}
