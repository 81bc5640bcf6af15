"""What is written from the declarations of arguments is current."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_parameters.py"


def test_what_is_written_from_declared_arguments_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    for target, text in (("TARGET", "text"), ("DATASET", "described")):
        assert script[target].read_text("utf-8") == script[text](), (
            "run scripts/write_parameters.py"
        )
