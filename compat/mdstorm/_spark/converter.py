"""`SparkDatasetConverter`: the handle of a converted DataFrame, from which loaders are made."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from mdstorm._datasets.sources import directory_of
from mdstorm._public import public
from mdstorm._spark.cache_dir import PETASTORM_CONF
from mdstorm._spark.copies import forget
from mdstorm._spark.deletion import delete_dir
from mdstorm._spark.tf_method import TFMethod
from mdstorm._spark.torch_method import TorchMethod
from mdstorm_backend.base import check_list
from mdstorm_backend.datasets import describe_place
from mdstorm_backend.display import Described, Description, counted, human_bytes, shown_place

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


@public("mdstorm.spark.spark_dataset_converter")
class SparkDatasetConverter(TFMethod, TorchMethod, Described):
    """A converted DataFrame, which creates PyTorch loaders and TensorFlow datasets.

    It can be pickled: only its attributes are stored, and it works in any process that can read the
    files. You can also construct one yourself, over shards of an MDS dataset or over any Parquet
    files.

    Attributes
    ----------
    cache_dir_url : str or None
        URL of the dataset; None means the directory of the files.
    file_urls : list of str
        URLs of the shards or Parquet files, in the order in which they are read. For a Delta table,
        the URL of the table, of which the converter reads the live rows of one version.
    dataset_size : int
        Number of rows.
    """

    PARENT_CACHE_DIR_URL_CONF = PETASTORM_CONF

    #: Whether the data are the user's own.
    _mdstorm_is_given = False
    #: Whether this object has removed its copy.
    _mdstorm_is_deleted = False
    #: What was said of decimals, unless a method is told otherwise.
    _mdstorm_decimals: str | None = None
    #: The data as they were opened when the converter was made, for `repr`; never pickled.
    _mdstorm_known: Any = None
    #: The version of a Delta table.
    _mdstorm_version: int | None = None

    def __init__(self, cache_dir_url: str | None, file_urls: list[str], dataset_size: int) -> None:
        check_list("file_urls", file_urls)
        self.cache_dir_url = cache_dir_url
        self.file_urls = file_urls
        self.dataset_size = dataset_size

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_mdstorm_known"}

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = self.cache_dir_url or directory_of(self.file_urls)
        rows, files = counted(self.dataset_size, "row"), len(self.file_urls)
        line = [repr(shown_place(place)), rows, counted(files, "file")]
        if self._mdstorm_known is not None:
            line.append(human_bytes(self._mdstorm_known.nbytes))
        found = describe_place(place, full=full)
        if self._mdstorm_is_deleted:
            return replace(found, line=[line[0], "deleted"])
        facts = [*found.facts, ("data", "the user's own" if self._mdstorm_is_given else "a copy")]
        if found.headings:  # of the index, of which the converter may read some files
            return replace(found, line=line, facts=facts)
        facts += [("rows", f"{self.dataset_size:,}"), ("files", f"{files:,}")]
        if self._mdstorm_known is None or not full:
            return Description(line, facts)
        known: Description = self._mdstorm_known._mdstorm_description(full=True)
        return replace(known, line=line, facts=facts)

    def __len__(self) -> int:
        return self.dataset_size

    def delete(self) -> None:
        """Remove the files that mdstorm wrote, and the directory if it is then empty.

        A converter over a path, or without a `cache_dir_url`, has no copy, and removes nothing.
        """
        if self._mdstorm_is_given or self.cache_dir_url is None:
            what = self.cache_dir_url or "what is at the file_urls"
            _logger.warning("%s is not a copy that a converter made, so it is not deleted", what)
            return
        forget(self.cache_dir_url)
        delete_dir(self.cache_dir_url)
        self._mdstorm_is_deleted = True
