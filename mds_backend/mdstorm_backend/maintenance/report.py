"""The report of `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Problem:
    """Something that is wrong, or was not checked.

    Attributes
    ----------
    file : str
        Name of the file in the directory of the dataset.
    problem : str
        Description.
    """

    file: str
    problem: str

    def to_json(self) -> dict[str, str]:
        """Return a JSON object."""
        return {"file": self.file, "problem": self.problem}


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found.

    Attributes
    ----------
    url : str
        Where the dataset is.
    quick : bool
        Whether only the sizes of the files were checked.
    shards, rows, bytes : int
        What was checked: shards, samples and bytes of the stored files, by the index.
    problems : tuple of Problem
        What is wrong; empty if nothing is.
    notes : tuple of Problem
        What could not be checked, listed once if the same in many shards; and files that do not
        belong to the dataset.
    has_hashes : bool
        Whether the index holds hashes of every file. Without them changed values cannot be
        detected.
    """

    url: str
    quick: bool
    shards: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    has_hashes: bool = False

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            **vars(self),
            "is_good": self.is_good,
            "problems": [problem.to_json() for problem in self.problems],
            "notes": [note.to_json() for note in self.notes],
        }
