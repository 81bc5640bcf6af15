"""The quick start with code of Petastorm, as a reader types it, in a folder of its own."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "quickstart" / "petastorm.md"
_TIMEOUT_SECONDS = 300


def steps(text: str) -> list[tuple[str, str]]:
    """Return the commands of a page, without those that install, and what it shows below each."""
    blocks = "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S))
    found = re.findall(r"^\$ (.+)\n((?:[^$].*\n)*)", blocks, re.M)
    return [step for step in found if step[0].startswith(("mdstorm", "python train"))]


@pytest.mark.long
def test_what_the_page_says_happens(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    files = re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", text, re.M | re.S)
    for name, code in files:
        (tmp_path / name).write_text(code.replace("file:///tmp", tmp_path.as_uri()), "utf-8")
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    assert len(steps(text)) == 5
    for command, shown in steps(text):
        done = subprocess.run(
            shlex.split(command),
            cwd=tmp_path,
            env={k: v for k, v in environment.items() if "REMOTE" not in k and "CONNECT" not in k},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
    assert (tmp_path / "train.py").read_text("utf-8").startswith("from mdstorm.spark import")
