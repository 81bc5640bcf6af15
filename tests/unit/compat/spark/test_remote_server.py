"""A Spark Connect server on another machine, with different directories, paths and libraries."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.servers.spark_connect import SparkConnectServer

pytestmark = pytest.mark.long

CONVERT = """
import json, logging, sys
logging.basicConfig(stream=sys.stderr)
from mdstorm.spark import make_spark_converter
warnings = []
class Keep(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())
logging.getLogger("mdstorm").addHandler(Keep())
def result(**options):
    try:
        converter = make_spark_converter(spark.range(0, 10, 1, 2), dtype=None, **options)
    except Exception as error:
        import traceback
        shown = "".join(traceback.format_exception(error))
        return {"error": type(error).__name__, "text": str(error), "shown": shown}
    with converter.make_torch_dataloader(10, num_epochs=1, shuffle_row_groups=False) as loader:
        rows = sorted(i for batch in loader for i in batch["id"].tolist())
    return {"rows": rows, "warnings": warnings}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the client and the server see different files at the same paths.

    The server sees ``client`` at ``server``, and its own ``client`` is empty. ``both`` is shared.
    """
    root = tmp_path_factory.mktemp("remote")
    for name in ("client", "server", "both", "cwd"):
        (root / name).mkdir()
    return root


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[SparkConnectServer]:
    server = SparkConnectServer(
        place / "cwd",
        mounts=(
            f"mount --bind {place}/client {place}/server",
            f"mount -t tmpfs none {place}/client",
        ),
    )
    yield server
    server.close()


def converted(server: SparkConnectServer, place: Path, **options: Any) -> dict[str, Any]:
    """Run a conversion in a client process and return its result."""
    program = f"{CONVERT}\nprint(json.dumps(result(**json.loads({json.dumps(options)!r}))))"
    found: dict[str, Any] = json.loads(server.run(program, place / "client").splitlines()[-1])
    return found


def test_directory_shared_with_server_is_written_by_executors(
    server: SparkConnectServer, place: Path
) -> None:
    found = converted(server, place, parent_cache_dir_url=f"file://{place}/both")
    assert found == {"rows": list(range(10)), "warnings": []}


def test_directory_not_shared_with_server_is_staged_through_staging_dir(
    server: SparkConnectServer, place: Path
) -> None:
    parent = f"file://{place}/client/cache"
    found = converted(
        server, place, parent_cache_dir_url=parent, staging_dir_url=f"file://{place}/both"
    )
    assert found["rows"] == list(range(10))
    (warning,) = found["warnings"]
    assert "executors do not see the directory that the driver created" in warning
    assert list((place / "both").glob("_mdstorm_staging_*")) == []


def test_server_without_shared_directory_raises_error(
    server: SparkConnectServer, place: Path
) -> None:
    found = converted(server, place, parent_cache_dir_url=f"file://{place}/client/cache")
    assert found["error"] == "WriteError"
    assert "this process cannot see it" in found["text"]
    assert "Choose another directory as staging_dir_url" in found["text"]
    assert "java" not in found["shown"]
    assert list((place / "client" / "cache").iterdir()) == []


def test_unshared_directory_without_staging_raises_error(
    server: SparkConnectServer, place: Path
) -> None:
    parent = f"file://{place}/client/cache"
    found = converted(server, place, parent_cache_dir_url=parent, staging=False)
    assert "No such file or directory" in found["text"]
    assert list((place / "client" / "cache").iterdir()) == []


def test_relative_paths_are_resolved_on_client(server: SparkConnectServer, place: Path) -> None:
    program = """
import mdstorm
from mdstorm_backend import materialize, open_dataset
spark.range(5).write.mode("overwrite").parquet("file://{both}/source")
print(len(materialize(spark.range(10), "../both/relative")))
print(len(mdstorm.convert("../both/source", "../both/converted", spark=spark)))
"""
    out = server.run(program.replace("{both}", str(place / "both")), place / "client")
    assert out.split() == ["10", "5"]
    assert (place / "both" / "relative" / "index.json").is_file()
