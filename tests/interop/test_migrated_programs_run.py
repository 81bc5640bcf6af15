"""Programs that were migrated to MosaicML Streaming's own API run with it alone."""

from __future__ import annotations

from pathlib import Path

from tests.interop.conftest import RunInMosaic
from tests.migrate.test_corpus import BEFORE, code_of

from mdstorm_migrate import migrate

PROGRAMS = Path(__file__).parents[1] / "migrate" / "programs_streaming"
NOTEBOOKS = [BEFORE / "notebook.ipynb", BEFORE / "databricks.py"]

#: Seconds; Spark starts, and writes seven datasets.
TIMEOUT = 300


def migrated(path: Path) -> str:
    """Return the code of a program after its migration, without magics."""
    result = migrate(path.read_bytes(), path=path, target="streaming", unsafe=True)
    assert result.errors == ()
    assert {found.rule for found in result.findings} <= {"PM100"}
    code = code_of(path, result.output.encode())
    assert "petastorm" not in code.replace("with petastorm", "").replace("'petastorm'", "")
    assert "mdstorm" not in code
    return code


def test_migrated_programs_run(run_in_mosaic: RunInMosaic, tmp_path: Path) -> None:
    programs = []
    for path in [*sorted(PROGRAMS.glob("*.py")), *NOTEBOOKS]:
        programs.append(tmp_path / f"{path.stem}.py")
        programs[-1].write_text(migrated(path))
    found = run_in_mosaic("run_programs.py", tmp_path, *programs, timeout=TIMEOUT)
    assert found["fixed_steps"] == {
        "ids": 40,
        "steps": 5,
        "kinds": {
            "id": ["torch.int64", []],
            "pair": ["torch.float32", [2]],
            "ripe": ["torch.uint8", []],
            "weight": ["torch.float32", []],
        },
    }
    assert found["module"] == [list(range(30)), 8]
    names, dtype = ["img", "label"], "torch.float32"
    epoch = [[names, dtype, [5, 2, 3], 10], [names, dtype, [5, 2, 3], 35]]
    assert found["transform"] == [*epoch, *epoch]
    assert found["notebook"] == [*range(20), 20]
    assert found["databricks"] == [*range(12), 12]
