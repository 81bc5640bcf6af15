"""The notebook for serverless GPUs with every launcher, imitated: nothing ran on Databricks."""

import json
import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit.databricks_launcher import PACKAGES, distributed
from tests.kit.notebooks import DIRECTORY, EXAMPLES
from tests.kit.programs import run_command
from tests.kit.small_datasets import write_numbers

from mdstorm.spark import SparkDatasetConverter

pytestmark = pytest.mark.newest

ROOT = EXAMPLES.parent
SOURCE = EXAMPLES / "databricks" / "08_serverless_gpu.py"
SERVERLESS = "client.6.1"
#: Code to run before the notebook: a machine with two GPUs, and a session that refuses most calls.
FIRST = f"""
import sys
sys.path.append({str(ROOT)!r})
import matplotlib, torch
from tests.kit import databricks_launcher
from tests.kit.refusing import refusing
matplotlib.use("agg")
torch.cuda.device_count = lambda: 2
databricks_launcher.install({{package!r}})
session = refusing(connect=False)
session.__enter__()
"""


class RecordedDistributor:
    """Records how a `TorchDistributor` is used, and runs the function once."""

    def __init__(self, num_processes: int, *, local_mode: bool, use_gpu: bool) -> None:
        self.used = {"num_processes": num_processes, "local_mode": local_mode, "use_gpu": use_gpu}

    def run(self, function: Any, *arguments: Any) -> Any:
        return {**self.used, "result": function(*arguments)}


@pytest.fixture
def run_distributed(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook's function on a machine with this runtime and number of GPUs."""
    runtime, num_gpus = request.param
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", runtime)
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)  # importing it raises an error
    (cell,) = (
        cell for cell in SOURCE.read_text("utf-8").split("# COMMAND") if "def find_launcher" in cell
    )
    cuda = SimpleNamespace(device_count=lambda: num_gpus)
    names: dict[str, Any] = {"torch": SimpleNamespace(cuda=cuda)}
    exec(cell.partition("\n")[2], names)
    names["TorchDistributor"] = RecordedDistributor
    return names["run_distributed"]


@pytest.mark.parametrize("run_distributed", [(SERVERLESS, 8)], indirect=True)
def test_serverless_gpus_without_launcher_raise_error_with_packages_and_versions(
    run_distributed: Any,
) -> None:
    with pytest.raises(ImportError, match=r"databricks.air .*version 6 .*serverless_gpu .*5\)"):
        run_distributed(len, "abc")


@pytest.mark.parametrize("run_distributed", [(SERVERLESS, 8)], indirect=True)
@pytest.mark.parametrize("package", PACKAGES)
def test_serverless_gpus_are_used_through_either_launcher(
    package: str, run_distributed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = SimpleNamespace(
        distributed=lambda: (
            lambda function: SimpleNamespace(
                distributed=lambda *args: [f"{package} {function(*args)}"]
            )
        )
    )
    monkeypatch.setitem(sys.modules, package, launcher)
    assert run_distributed(len, "abc") == f"{package} 3"


@pytest.mark.parametrize(
    ("run_distributed", "processes", "printed"),
    [(("16.4", 4), 4, ""), (("16.4", 0), 2, "no GPU"), ((SERVERLESS, 0), 2, "no GPU")],
    indirect=["run_distributed"],
    ids=["cluster", "cluster-without-gpu", "serverless-without-gpu"],
)
def test_torch_distributor_has_gpus_of_cluster_or_prints_that_there_are_none(
    run_distributed: Any, processes: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    used = {"num_processes": processes, "local_mode": True, "use_gpu": not printed, "result": 3}
    assert run_distributed(len, "abc") == used
    assert printed in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_notebook_reads_every_row_once_with_either_launcher(
    package: str, tmp_path: Path, workspace: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        **workspace,
        "DATABRICKS_RUNTIME_VERSION": SERVERLESS,
        "MDSTORM_CACHE_DIR": str(tmp_path / "cache"),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "notebook.py"
    cells = DIRECTORY.sub(rf'\1 = "{(tmp_path / "data").as_uri()}"', SOURCE.read_text("utf-8"))
    program.write_text(FIRST.format(package=package) + cells)
    printed = run_command(sys.executable, program, cwd=tmp_path).stdout
    assert "20000 rows in five epochs" in printed
    assert "every row once: True" in printed
    assert "rows of main.default.points by process: [500, 500]" in printed
    assert "no GPU" not in printed


def ranks_and_rows(converter: SparkDatasetConverter) -> tuple[str, bool, list[int]]:
    import os

    with converter.make_torch_dataloader(10, num_epochs=1, cur_shard="auto") as loader:
        rows = [number for batch in loader for number in batch["number"].tolist()]
    return os.environ["RANK"], any("SPARK" in key for key in os.environ), rows


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [{}, {"num_accelerators": 2}, {"gpus": 2, "gpu_type": "H100"}],
    ids=json.dumps,
)
def test_converter_gives_shares_in_the_launchers_processes(
    arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    dataset = write_numbers(tmp_path / "data", 100)
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, 100)
    is_old = "gpus" in arguments
    with pytest.warns(FutureWarning, match="num_accelerators") if is_old else nullcontext():
        decorated = distributed(**arguments)(ranks_and_rows)
    ranks, have_spark, rows = zip(*decorated.distributed(converter), strict=True)
    assert ranks == ("0", "1")
    assert not any(have_spark)
    assert [len(one) for one in rows] == [50, 50]
    assert sorted(chain(*rows)) == list(range(100))
