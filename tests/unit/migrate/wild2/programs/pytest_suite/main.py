"""Runs the suite of the project with unittest (they have pytest at work)."""
import io
import unittest


def main(spark, directory):
    import fixtures
    fixtures.install(spark, directory)
    import test_data_access
    import test_mocks
    suite = unittest.TestSuite()
    for mod in (test_data_access, test_mocks):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(mod))
    stream = io.StringIO()
    result = unittest.TextTestRunner(stream=stream, verbosity=2).run(suite)
    if not result.wasSuccessful():
        print(stream.getvalue())
    return [result.testsRun, len(result.failures), len(result.errors)]
