"""Compare what a program reads under Petastorm and under mdstorm.

`recorder.py` records a run under either library; the other modules compare two recordings.
"""

from mdstorm_migrate.compare.comparison import Verdict, compare_recordings
from mdstorm_migrate.compare.recordings import read_recording

__all__ = ["Verdict", "compare_recordings", "read_recording"]
