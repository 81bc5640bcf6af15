"""Read half of the rows, shuffled; print their count, distinct count, minimum and maximum.

Arguments: the URL, and 0 or 1 for the half.
"""

import sys

from mdstorm import make_batch_reader

url, half = sys.argv[1:]
with make_batch_reader(
    url, schema_fields=["id"], cur_shard=int(half), shard_count=2, shuffle_rows=True
) as reader:
    rows = [row for batch in reader for row in batch.id]
print(len(rows), len(set(rows)), min(rows), max(rows))
