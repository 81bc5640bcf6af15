"""Names and methods that are gone, each named once."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding

from mdstorm_migrate.api import migrate

HEAD = (
    "import pandas as pd\nimport pyarrow as pa\nimport pyarrow.parquet as pq\n"
    "import mdstorm  # not petastorm\n"
)


@pytest.mark.parametrize(
    ("code", "fragment"),
    [
        ("fs = pa.hdfs.connect('host')", "pa.hdfs"),
        ("from pyarrow.filesystem import LocalFileSystem", "LocalFileSystem"),
        ("import pyarrow.hdfs", "pyarrow.hdfs"),
        ("pq.ParquetDatasetPiece(path)", "pq.ParquetDatasetPiece"),
        ("for p in pq.ParquetDataset(path).pieces: ...", "pq.ParquetDataset(path).pieces"),
        ("data = pa.serialize(x).to_buffer()", "pa.serialize"),
        ("index = pd.Int64Index([1])", "pd.Int64Index"),
        ("now = pd.datetime.now()", "pd.datetime"),
        ("x = frame.ix[0]", "frame.ix"),
        ("df = df.append(row)", "df.append"),
        ("rows.append(row, ignore_index=True)", "rows.append"),
        ("def f(df: pd.DataFrame):\n    return df.append(df)", "df.append"),
        ("df = pd.concat(a)\nx = df['a'].mad()", "df['a'].mad"),
        ("from torch._six import string_classes", "string_classes"),
        ("import tensorflow as tf\ns = tf.Session()", "tf.Session"),
        (
            "import tensorflow as tf\n"
            "x = tf.keras.layers.experimental.preprocessing.Hashing(num_bins=9)",
            "tf.keras.layers.experimental",
        ),
        ("from tensorflow.keras.layers import DenseFeatures", "DenseFeatures"),
        (
            "import tensorflow as tf\ntf.keras.mixed_precision.experimental.set_policy(p)",
            "tf.keras.mixed_precision.experimental",
        ),
        ("from collections import Mapping, OrderedDict", "Mapping"),
        ("import collections\nisinstance(x, collections.Mapping)", "collections.Mapping"),
        ("from pyspark.sql.types import to_arrow_schema", "to_arrow_schema"),
        ("import numpy as np\na = np.fromstring(data, dtype='u1')", "np.fromstring"),
        ("import tensorflow as tf\nit = d.make_one_shot_iterator()", "d.make_one_shot_iterator"),
        ("from scipy.misc import imresize", "imresize"),
        (
            "class A:\n    def f(self):\n        self.d = pq.ParquetDataset(p)\n"
            "    def g(self):\n        return self.d.pieces",
            "self.d.pieces",
        ),
        ("import pytorch_lightning as pl\npl.metrics.Accuracy()", "pl.metrics"),
    ],
)
def test_what_is_gone_is_named(code: str, fragment: str) -> None:
    check_finding(HEAD + code, "PM302", fragment)


@pytest.mark.parametrize(
    "code",
    [
        "rows.append(row)",
        "rows = []\nrows.append(df)",
        "names = names_of(df); names.append('x')",
        "x = path.parts.lookup(y)",
        "dataset.pieces",
        "try:\n    from torch._six import inf\nexcept ImportError:\n    from math import inf",
        "try:\n    from math import inf\nexcept:\n    from torch._six import inf",
        "import tensorflow.compat.v1 as tf\ns = tf.Session()",
        "import tensorflow as tf\ns = tf.compat.v1.Session()",
        "if pa.__version__ < '16':\n    fs = pa.hdfs.connect()",
        "def f(pa): return pa.hdfs",
        "from pyarrow import fs\nfs.LocalFileSystem()",
        "from collections.abc import Mapping",
        "from petastorm.hdfs import namenode",
        "from pyspark.sql import functions as F\nF.weekofyear(c)",
        "self.data.sort()",
        "df = pd.read_csv(p)\nn = df.order + df.sort\nn = df['a'].unique()\nn.sort()",
        "df = pd.read_csv(p)\nx = df.index.append(df.index)\ny = df['a'][0]\ny.sort()",
        "import numpy as np\na = np.fromstring('1 2', sep=' ')",
        "import tensorflow.compat.v1 as tf\nit = d.make_one_shot_iterator()",
        "df = pd.read_csv(p)\nn = df.values.tolist()\nn.sort()",
        "df = pd.read_csv(p)\nfor row in df.itertuples(): row.sort()",
    ],
)
def test_what_is_there_is_not_named(code: str) -> None:
    found = migrate(HEAD + code).findings
    assert [one.message for one in found if one.rule in ("PM302", "PM303")] == []


def test_places_with_one_advice_are_one_finding() -> None:
    code = (
        "import tensorflow as tf\nx = tf.placeholder(1)\ny = tf.placeholder(2)\ns = tf.Session()\n"
    )
    (found,) = migrate(HEAD + code).findings
    assert found.line == 6
    assert found.message == (
        "`tf.placeholder`, `tf.Session` are gone from TensorFlow 2.0 on, in 3 places"
    )


def test_places_in_one_statement_are_one_finding() -> None:
    (found,) = migrate(f"{HEAD}from pyarrow import hdfs, serialize\n").findings
    assert found.message == (
        "`pyarrow.hdfs` is gone from pyarrow 16 on; `pyarrow.serialize` is gone from pyarrow 12 on"
    )


def test_the_comment_is_written_once_and_above_the_first_place() -> None:
    result = migrate(f"{HEAD}a = pa.localfs\nb = pa.localfs\n")
    assert result.output.count("TODO(mdstorm): PM302") == 1
    assert result.output.index("TODO") < result.output.index("a = pa.localfs")
    assert migrate(result.output).output == result.output


def test_ruff_is_named_where_it_helps() -> None:
    (found,) = migrate("import numpy as np, mdstorm\nnp.in1d(a, b)\n# petastorm\n").findings
    assert found.remedy is not None
    assert found.remedy.endswith("(ruff: NPY201)")


def test_hooks_that_lightning_no_longer_calls_are_named() -> None:
    code = (
        "import lightning.pytorch as pl\n"
        "class Model(pl.LightningModule):\n"
        "    def training_epoch_end(self, outputs): ...\n"
    )
    (found,) = migrate(HEAD + code).findings
    assert found.message == "`training_epoch_end` is gone from Lightning 2.0 on"
