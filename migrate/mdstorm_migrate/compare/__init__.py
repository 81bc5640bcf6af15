"""Compare what a program reads under Petastorm and under mdstorm.

`recorder.py` records a run under either library; the other modules compare two recordings.
"""

from mdstorm_migrate.compare.comparison import (
    DIFFERENT,
    NOT_COMPARABLE,
    Verdict,
    compare_recordings,
)
from mdstorm_migrate.compare.recordings import Recording, read_recording
from mdstorm_migrate.compare.report import counts_of, lines_of, to_json

__all__ = [
    "DIFFERENT",
    "NOT_COMPARABLE",
    "Recording",
    "Verdict",
    "compare_recordings",
    "counts_of",
    "lines_of",
    "read_recording",
    "to_json",
]
