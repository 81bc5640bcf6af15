"""The example notebooks that need trainers, tuners or both: run from top to bottom."""

from pathlib import Path

import pytest
from tests.notebooks import AS_PETASTORM, run_notebook

_TRAINED = [
    "1617 rows to train on, 180 held out",
    "recognises nine of ten digits that it has not seen: True",
]
_PYTORCH = [
    *_TRAINED,
    "{'features': ((64, 64), torch.float32), 'label': ((64,), torch.int64)}",
    "4 trials; the best recognises most: True",
    "two processes together recognise most: True",
]
_TENSORFLOW = [
    *_TRAINED,
    "3 trials; the best recognises most: True",
    "both workers have the same model: True",
    "two workers together recognise most: True",
]

#: What each notebook prints, among others; those in `before` under their Petastorm's name.
PRINTED = {
    "01_pytorch": _PYTORCH,
    "before/01_pytorch": _PYTORCH,
    "02_tensorflow": _TENSORFLOW,
    "before/02_tensorflow": _TENSORFLOW,
    "03_tuning": [],
    "04_lightning": [
        "stopped after 2513 rows, 896 of them in the second epoch",
        "went on with 721 rows: each row came twice in all",
        "recognises most: True",
        "rows of each process in three epochs: [2424, 2427]",
    ],
    "10_hugging_face": [
        "evaluated on 180 rows",
        "the same weights: True",
        "evaluated on 180 rows, 180 of them different",
        "recognises most: True",
    ],
    "11_ray": [
        "3000 rows in three epochs over both workers",
        "the model has learned: True",
        "the checkpoint holds: ['loader.json']",
    ],
}
#: The paths of Ray's sockets would be too long below a directory of pytest's.
RAY = {"RAY_TMPDIR": "/tmp"}


@pytest.mark.long
@pytest.mark.parametrize("name", PRINTED)
def test_a_notebook_runs_and_leaves_no_copy(name: str, tmp_path: Path) -> None:
    first = AS_PETASTORM if name.startswith("before/") else ""
    printed = run_notebook(name, tmp_path, first=first, environment=RAY)
    assert [line for line in PRINTED[name] if line not in printed] == [], "\n".join(printed)
    assert [line for line in printed if line.endswith(": False") and "GPU" not in line] == []
    if name == "03_tuning":
        trials = [line for line in printed if line.startswith("learning rate")]
        assert len(trials) == 3 * 4
        assert all(line.endswith(" after 1000 rows") for line in trials)
        assert len([line for line in printed if line.endswith("same loss again: True")]) == 3
    assert list(tmp_path.rglob("*.mds")) == []
