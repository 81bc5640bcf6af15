"""Worker processes that cannot log in to the workspace, like workers in a notebook."""

import os
from typing import Any

import pytest
from tests.kit.servers.catalog import Catalog
from tests.unit.compat.tables.orders import NAME, NEWEST

from mdstorm.errors import CredentialsError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader


def forget(_: int) -> None:
    """Remove the variables that the notebook's process uses to log in."""
    for name in [name for name in os.environ if name.startswith("DATABRICKS_")]:
        del os.environ[name]


@pytest.mark.long
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_parent_obtains_credentials_for_workers_without_an_identity(
    method: str,
    orders: Catalog,
) -> None:
    orders.unity.lifetime = 3.0  # the first credentials expire before workers use them
    with make_spark_converter(NAME).make_torch_dataloader(num_epochs=1) as made:
        how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
        loader = StreamingDataLoader(made.dataset, batch_size=3, worker_init_fn=forget, **how)
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == NEWEST
    assert [*orders.unity.by_process] == [os.getpid()]
    assert len(orders.unity.by_process[os.getpid()]) >= 2


@pytest.mark.long
def test_refused_credentials_for_worker_without_identity_raise_error_with_cause(
    orders: Catalog,
) -> None:
    with make_spark_converter(NAME).make_torch_dataloader(num_epochs=1) as made:
        orders.unity.refusal = ("403 Forbidden", "PERMISSION_DENIED", "no more")
        loader = StreamingDataLoader(
            made.dataset,
            batch_size=3,
            num_workers=2,
            multiprocessing_context="spawn",
            worker_init_fn=forget,
        )
        with pytest.raises(CredentialsError, match=r"does not issue credentials .*\(no more"):
            list(loader)
