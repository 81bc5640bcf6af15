"""Tables read through S3 access points."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.frameworks import import_framework
from tests.kit.servers.catalog import Catalog
from tests.kit.servers.s3 import ACCOUNT, BUCKET
from tests.unit.compat.tables.orders import NAME, NEWEST, by_torch, numbers

from mdstorm import convert, make_batch_reader
from mdstorm.errors import UnsupportedTableError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import MDSWriter, StreamingDataset, open_dataset
from mdstorm_backend.storage import Location, renewing
from mdstorm_backend.tables import iceberg as tables_of_iceberg
from mdstorm_backend.tables.delta_options import of_delta_rs

POINT = f"arn:aws:s3:us-east-1:{ACCOUNT}:accesspoint/points"
#: A URL without TLS, so that a server on localhost can act as its proxy.
ENDPOINT = "http://s3-accesspoint.us-east-1.amazonaws.com"
HOST = f"points-{ACCOUNT}.s3-accesspoint.us-east-1.amazonaws.com"


@pytest.fixture
def hosts(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The host name in each request to the store; its access point has a different host name."""
    from moto.s3control.models import s3control_backends

    points = s3control_backends[ACCOUNT]["aws"]
    points.create_access_point(ACCOUNT, "points", BUCKET, {}, {})
    monkeypatch.setattr(renewing, "opened_filesystems", {})
    monkeypatch.setenv("AWS_ENDPOINT_URL", ENDPOINT)
    monkeypatch.setenv("http_proxy", orders.guard.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return orders.guard.hosts


@pytest.fixture
def vended(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the catalog return credentials that specify the access point."""
    vend = orders.unity.vend

    def vend_for_access_point(prefix: str, seconds: float) -> dict[str, Any]:
        keys = vend(prefix, seconds)["aws_temp_credentials"]
        return {"aws_temp_credentials": {**keys, "access_point": POINT}}

    monkeypatch.setattr(orders.unity, "vend", vend_for_access_point)


@pytest.mark.long
@pytest.mark.parametrize("format_", ["DELTA", "PARQUET"])
def test_table_is_read_through_the_access_point_in_its_credentials(
    format_: str,
    vended: None,
    hosts: list[str],
    orders: Catalog,
    tmp_path: Path,
) -> None:
    wanted = NEWEST
    if format_ == "PARQUET":
        wanted = [77]
        (tmp_path / "plain").mkdir()
        pq.write_table(pa.table({"n": wanted}), tmp_path / "plain/a.parquet")
        orders.put("main.sales.by_point", tmp_path / "plain", format_)
    name = NAME if format_ == "DELTA" else "main.sales.by_point"
    assert numbers(make_batch_reader(name, num_epochs=1)) == wanted
    assert by_torch(make_spark_converter(name)) == wanted
    assert len(convert(name, str(tmp_path / "mds"))) == len(wanted)
    assert {*hosts} == {HOST}
    assert not orders.guard.outside


@pytest.fixture
def iceberg(hosts: list[str], orders: Catalog, tmp_path: Path) -> Any:
    """Metadata file URL of an Iceberg table that is in the store and has the rows `NEWEST`."""
    tables = import_framework("tests.kit.iceberg_tables")
    made = tables.catalog(tmp_path).create_table("n.t", pa.schema([("n", pa.int64())]))
    made.append(pa.table({"n": NEWEST}))
    url = orders.put("main.ice.berg", tables.path_of(made), "ICEBERG")
    orders.guard.shows_missing = False
    return f"{url}/metadata/{made.metadata_location.rpartition('/')[2]}"


@pytest.mark.long
@pytest.mark.parametrize("sent_with", ["config", "vended_config"])
def test_iceberg_table_is_read_through_the_access_point_from_its_catalog(
    sent_with: str,
    iceberg: str,
    hosts: list[str],
    orders: Catalog,
) -> None:
    orders.unity.metadata["main.ice.berg"] = iceberg
    getattr(orders.unity, sent_with)[f"s3.access-points.{BUCKET}"] = POINT
    assert numbers(make_batch_reader("main.ice.berg", num_epochs=1)) == NEWEST
    assert by_torch(make_spark_converter("main.ice.berg")) == NEWEST
    assert {*hosts} == {HOST}
    assert not orders.guard.outside


@pytest.mark.long
@pytest.mark.parametrize("directory", ["metadata/elsewhere", "other"])
def test_iceberg_table_with_metadata_elsewhere_is_read_through_the_access_point(
    directory: str,
    hosts: list[str],
    orders: Catalog,
    tmp_path: Path,
) -> None:
    tables = import_framework("tests.kit.iceberg_tables")
    catalog = tables.catalog(tmp_path)
    keys = {"s3.access-key-id": "testing", "s3.secret-access-key": "testing-secret"}
    catalog.properties |= {"s3.endpoint": orders.behind.url, "s3.region": "us-east-1", **keys}
    url = f"s3://{BUCKET}/tables/main.ice.berg"
    elsewhere = {"write.metadata.path": f"{url}/{directory}"}
    columns = pa.schema([("n", pa.int64())])
    made = catalog.create_table("n.t", columns, f"{url}/data", properties=elsewhere)
    made.append(pa.table({"n": NEWEST}))
    point = made.metadata_location.replace(f"s3://{BUCKET}", f"s3://{POINT}")
    keys = orders.guard.hand_out("tables/main.ice.berg/", 3600).keys()
    assert numbers(make_batch_reader(point, num_epochs=1, storage_options=keys)) == NEWEST
    assert {*hosts} == {HOST}
    assert not orders.guard.outside


def test_metadata_access_point_is_not_used_for_other_buckets() -> None:
    def root_of(location: str, directory: str, **properties: str) -> str:
        metadata = SimpleNamespace(location=location, properties=properties)
        above = tables_of_iceberg._above(directory, metadata)
        return above or tables_of_iceberg._recorded(directory, metadata)

    elsewhere = {"write.metadata.path": "s3://meta/t"}
    assert root_of("s3://data/t", f"s3://{POINT}/t", **elsewhere) == "s3://data/t"
    assert root_of("s3://meta/d", f"s3://{POINT}/t", **elsewhere) == f"s3://{POINT}/d"
    assert root_of("s3a://data/d", f"s3://{POINT}/t") == f"s3://{POINT}/d"
    assert root_of("s3://data/d", "s3://p-xyz-s3alias/t") == "s3://p-xyz-s3alias/d"
    assert root_of(f"s3://{POINT}/d", f"s3://{POINT}/t") == f"s3://{POINT}/d"
    assert root_of("s3://old/d", f"s3://{POINT}/t/metadata") == f"s3://{POINT}/t"
    outpost = "arn:aws:s3-outposts:us-east-1:1:outpost/o/accesspoint/p"
    assert root_of("s3://data/d", f"s3://{outpost}/t") == f"s3://{outpost}/d"


def test_mds_is_written_and_read_through_an_access_point(
    hosts: list[str],
    orders: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = orders.guard.hand_out("mds/", 3600).keys()
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    for name, value in zip(names, keys.values(), strict=True):
        monkeypatch.setenv(name, value)
    url = f"s3://{POINT}/mds"
    with MDSWriter(out=url, columns={"n": "int64"}, size_limit=100) as writer:
        for n in NEWEST:
            writer.write({"n": n})
    dataset = open_dataset(url)
    assert [dataset[number]["n"] for number in range(len(dataset))] == NEWEST
    streamed = StreamingDataset(remote=url, batch_size=1)
    assert sorted(sample["n"] for sample in streamed) == NEWEST
    assert {*hosts} == {HOST}


def test_access_point_becomes_delta_rs_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    keys = {"key": "k", "secret": "s"}
    url, found = of_delta_rs(Location.of(f"s3://{POINT}/t/u", keys))
    assert (url, found["AWS_ENDPOINT_URL"]) == ("s3://points/t/u", f"https://{HOST}")
    assert (found["AWS_REGION"], found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"]) == ("us-east-1", "true")
    china = POINT.replace("aws:", "aws-cn:").replace("us-east-1", "cn-north-1")
    _, found = of_delta_rs(Location.of(f"s3://{china}/t", keys))
    assert found["AWS_ENDPOINT_URL"].endswith(".s3-accesspoint.cn-north-1.amazonaws.com.cn")
    _, found = of_delta_rs(Location.of("s3://points-xyz-s3alias/t", keys))
    assert found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "true"
    assert "AWS_ENDPOINT_URL" not in found
    with pytest.raises(UnsupportedTableError, match="is read through s3-outposts, which deltalake"):
        of_delta_rs(
            Location.of("s3://arn:aws:s3-outposts:us-east-1:1:outpost/o/accesspoint/p/t", keys)
        )
