import pyarrow.parquet as pq
from . import register


@register("arrow")
class ArrowPlugin:
    def read(self, url):
        return int(sum(pq.read_table(url.replace("file://", ""))["id"].to_pylist()))
