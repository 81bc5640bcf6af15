"""Read the deletion vectors of a Delta table: which rows of its files are dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Positions of dead rows in a file, ascending.
DeadRows = npt.NDArray[np.int64]


def dead_rows(vectors: Any) -> dict[str, DeadRows]:
    """Return the dead rows of each file that has some, by its URL without percent-encoding.

    Parameters
    ----------
    vectors : object
        What ``deltalake.DeltaTable.deletion_vectors`` returns: a stream of URLs and lists of
        booleans, one per row of the file, False for a dead one.
    """
    found: dict[str, DeadRows] = {}
    for batch in pa.table(vectors).to_batches():
        lists = batch.column("selection_vector")
        bounds = np.concatenate([[0], np.cumsum(np.asarray(lists.value_lengths()))])
        alive = lists.flatten().to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
        dead = np.flatnonzero(~alive).astype(np.int64, copy=False)
        cuts = np.searchsorted(dead, bounds)
        for i, url in enumerate(batch.column("filepath").to_pylist()):
            found[unquote(url)] = dead[cuts[i] : cuts[i + 1]] - bounds[i]
    return found


def by_path(
    found: Mapping[str, DeadRows], paths: Iterable[str], url_of: Callable[[str], str]
) -> tuple[dict[str, DeadRows], list[str]]:
    """Assign dead rows to the paths of files as the log has them.

    Parameters
    ----------
    found : mapping of str to array of int64
        What `dead_rows` returned.
    paths : iterable of str
        The paths of all live files.
    url_of : callable
        Returns the URL of a path.

    Returns
    -------
    by_path : dict of str to array of int64
        The dead rows of files that have some.
    unknown : list of str
        URLs of vectors that belong to none of the paths.
    """
    left = dict(found)
    assigned = {path: left.pop(url) for path in paths if (url := unquote(url_of(path))) in left}
    return assigned, sorted(left)
