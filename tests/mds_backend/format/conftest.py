"""Classes of encodings that Spark's workers know."""

import sys
from collections.abc import Iterator

import pytest
from tests.mds_backend.format import own_classes


@pytest.fixture
def sent_to_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Send the classes themselves to Spark's workers, which lack the modules of the tests."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    modules = [own_classes, sys.modules[request.module.__name__]]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)
