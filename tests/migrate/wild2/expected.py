"""What an experienced user of Petastorm expects of the migration of these programs, file by file.

Written by one who had read neither the rules nor the documentation of the tool. A file that is not
listed is expected to need no work: all of it is edited, and nothing of Petastorm is left.
"""

from __future__ import annotations

import numpy as np
from tests.migrate.wild.expected import Expected

__all__ = ["EXPECTED"]

EXPECTED: dict[str, Expected] = {
    # Versions of Petastorm say nothing of mdstorm.
    "programs/version_gates.py": Expected(
        {"PETASTORM_GE_0_9 = ": "is compared", "has_gpu = ": "is not in mdstorm"},
        listed=("if LooseVersion(petastorm.__version__)", "Version(petastorm.__version__) >"),
        stays=("installed('petastorm-extras')",),
        keeps=True,
    ),
    # Private parts, and parts that mdstorm does not have.
    "programs/custom_codec_pipeline.py": Expected(
        {"import dataset_metadata, legacy": "petastorm.etl.legacy"}, keeps=True
    ),
    "programs/codec_registration.py": Expected(
        {"class RleCodec": "a custom codec"},
        listed=("sys.modules['petastorm.ext_codecs'] =",),
        keeps=True,
    ),
    "programs/monkeypatch_fs.py": Expected(
        {"get_filesystem_and_path_or_paths = _traced": "get_filesystem_and_path_or_paths"},
        listed=("get_filesystem_and_path_or_paths = _orig",),
        keeps=True,
    ),
    "programs/pools_compare.py": Expected(
        {"import ThreadPool": "petastorm.workers_pool"},
        listed=("import DummyPool", "import EmptyResultError"),
        keeps=True,
    ),
    "programs/pickled_artifacts.py": Expected(
        {"_fields_as_tuple": "_fields_as_tuple"}, listed=("SAFE = (",), keeps=True
    ),
    "programs/predicate_pushdown_selfmade.py": Expected(
        {"import ArrowReaderWorker": "not in mdstorm"},
        listed=(
            "import PyDictReaderWorker",
            "def _filter_row_groups(",
            "super()._filter_row_groups(",
            "r._workers_pool",
            "hasattr(petastorm.reader",
        ),
        keeps=True,
    ),
    "programs/hdfs_namenode_tools.py": Expected(
        {"from petastorm.hdfs.namenode import": "petastorm.hdfs"},
        listed=("patch('petastorm.hdfs.namenode",),
        keeps=True,
    ),
    "programs/shuffling_analysis_tool.py": Expected(
        {
            "import generate_shuffle_analysis_dataset": "not in mdstorm",
            "import throughput": "not in",
        },
        listed=("import configure_spark",),
        keeps=True,
    ),
    "programs/pytest_suite/test_data_access.py": Expected(
        {"from petastorm.tests.test_common import": "petastorm.tests"},
        stays=("'WARNING:data_access:petastorm: '",),
        keeps=True,
    ),
    # Programs in strings.
    "programs/multiproc_readers.py": Expected(
        listed=("from petastorm import make_batch_reader",), keeps=True
    ),
    "programs/env_yaml_factory.py": Expected(
        listed=("class: petastorm.make_batch_reader", "class: petastorm.pytorch."),
        becomes=("'mdstorm.reader': {'level'", "logging.getLogger('mdstorm.reader')"),
        stays=("'PETASTORM_HOME'", "'--conf spark.petastorm=1'", "SPARK_PETASTORM_OPTS"),
        unsafe=True,
        keeps=True,
    ),
    "programs/vision_repo/config.py": Expected(
        listed=('"loader": {"_target_"', '"wrap": {"_target_"')
    ),
    # A message that tells its readers what to install.
    "programs/lazy_optional.py": Expected(
        {"LazyModule('petastorm.tf_utils')": "petastorm.tf_utils"},
        listed=("LazyModule('petastorm.pytorch')",),
        keeps=True,
    ),
    # Names in strings, of other files too.
    "programs/plugin_registry/registry.py": Expected(
        untouched=True, listed=("'petastorm:make_batch_reader'", "'petastorm.reader:make_reader'")
    ),
    "programs/plugin_registry/plugins.json": Expected(
        untouched=True, listed=('"petastorm:make_batch_reader"',)
    ),
    "programs/plugin_registry/main.py": Expected(
        untouched=True, listed=("petastorm.transform:TransformSpec", "petastorm.nothing:Nope")
    ),
    "programs/pytest_suite/test_mocks.py": Expected(
        becomes=(
            "'mdstorm.make_batch_reader'",
            "'mdstorm.pytorch': mock.MagicMock()",
            "sys.modules['mdstorm.pytorch']",
        ),
        stays=("data_access.petastorm, ", "'data_access.petastorm.make_batch_reader'"),
    ),
    "programs/pytest_suite/data_access.py": Expected(
        becomes=("import mdstorm\n",), stays=("logger.warning('petastorm: %s', e)",)
    ),
    "programs/mocks_reader_mock.py": Expected(
        {"import generate_datapoint": "petastorm.generator"},
        listed=("import ReaderMock",),
        keeps=True,
    ),
    "programs/converter_cache_reuse.py": Expected(
        {"glob.glob(path": "points to MDS shards"},
        listed=("spark.read.parquet(c.cache_dir_url)",),
        keeps=True,
    ),
    "programs/estimator_platform/conf.py": Expected(
        stays=("backend: str = 'petastorm'", "'PETASTORM_EST_'")
    ),
    "programs/estimator_platform/stores.py": Expected(
        becomes=("import_module('mdstorm.spark')",),
        stays=("_STORES = {'petastorm': PetastormStore}", "class PetastormStore"),
    ),
    "programs/estimator_platform/estimator.py": Expected(
        becomes=("from mdstorm.spark.spark_dataset_converter import",)
    ),
    # Words that only look like the library.
    "programs/research_globals.py": Expected(
        stays=("'--petastorm-cache', dest='petastorm_cache'", "FLAGS.petastorm_cache")
    ),
    "programs/caches_local_disk.py": Expected(
        stays=("petastorm_cache_dir(", "'petastorm_cache_'"),
        computes=[
            [435, 435],
            True,
            [[1, 2], [1, 2], [1, 2]],
            2,
            0,
            "Unknown cache_type: redis. Use 'null', None or 'local-disk'",
        ],
        why="A message says more.",
    ),
    "programs/url_zoo.py": Expected(
        stays=("'s3://bucket/petastorm/ds'", "'hdfs://nameservice1/petastorm_data'"),
        computes={
            "errors": ["InvalidArgumentError"] * 6,
            "normal": [
                "s3://bucket/petastorm/ds",
                "gs://b/p",
                "hdfs://nameservice1/petastorm_data",
                "abfss://c@acc.dfs.core.windows.net/x",
                "file:///x/y//",
            ],
        },
        why="mdstorm's errors are subclasses of `ValueError`.",
    ),
    "programs/decorators_contexts.py": Expected(
        stays=("with_petastorm_reader", "petastorm_readers")
    ),
    "programs/analytics_orca_shards.py": Expected(stays=("{'petastorm': True,",)),
    "programs/star_imports_mess.py": Expected(
        becomes=("import mdstorm as p, numpy as np, mdstorm.codecs as cdx, mdstorm.reader as rd",),
        stays=(
            "UnischemaField('petastorm',np.str_",
            "petastorm_url",
            "petastorm_kwargs)",
            "x.petastorm",
            '"/petastorm/mess"',
        ),
    ),
    "programs/torch_worker_ddp_style.py": Expected(
        stays=("'DATA_BACKEND', 'petastorm'", "args.backend == 'petastorm'")
    ),
    "programs/sized_streams_typed.py": Expected(becomes=("import mdstorm as petastorm\n",)),
    # mdstorm's classes leave it the names of its attributes.
    "programs/subclass_everything.py": Expected(
        becomes=("'petastorm_reader.Reader'", "from mdstorm import reader as petastorm_reader")
    ),
    "programs/legacy_py2_style.py": Expected(stays=("# Écrit à", "from dataset_toolkit.reader")),
    "programs/compat_shims/main.py": Expected(untouched=True),
    "programs/compat_shims/petastorm_helpers.py": Expected(untouched=True),
    "programs/compat_shims/test_compat.py": Expected(
        becomes=("@patch('mdstorm.reader.Reader')",),
        stays=(
            "import petastorm_helpers",
            "'petastorm_helpers.PETASTORM_OPTIONS'",
            "'compat.petastorm_compat.make_batch_reader'",
        ),
        unsafe=True,
    ),
    "programs/ranking_lib/settings.py": Expected(stays=("'PETASTORM_CACHE_DIR'",)),
    "programs/feature_store/main.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/store.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/engines.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/petastorm_engine.py": Expected(
        becomes=("import mdstorm as _petastorm",), stays=("class PetastormEngine",)
    ),
    "programs/tfx_like/main.py": Expected(untouched=True),
    "programs/tfx_like/artifacts.py": Expected(untouched=True),
    "programs/tfx_like/components.py": Expected(untouched=True),
    "programs/monorepo/main.py": Expected(untouched=True),
    "programs/monorepo/libs/petastorm_ext/readers.py": Expected(
        stays=("from ._petastorm import defaults",)
    ),
    "programs/monorepo/app/train.py": Expected(
        becomes=("from mdstorm.pytorch import DataLoader",),
        stays=(
            "readers as petastorm\n",
            "petastorm.make_batch_reader(self.url",
            "petastorm.read_ids(self.url)",
        ),
    ),
    # Other files of projects.
    "programs/monorepo/setup.cfg": Expected(
        becomes=("tf = mdstorm[tf]", "[mypy-mdstorm.*]", "known_third_party = mdstorm,torch")
    ),
    "programs/hpo_sweep/sweep.json": Expected(untouched=True),
    "programs/cli_tools/main.py": Expected(untouched=True),
    "programs/cli_tools/requirements.txt": Expected(
        becomes=("mdstorm[tf,torch]",), stays=("pyspark>=3.0",)
    ),
    "programs/cli_tools/run.sh": Expected(
        listed=("petastorm-copy-dataset.py", "petastorm-throughput.py", "petastorm.tools.copy"),
        becomes=("python3 -m mdstorm.etl.petastorm_generate_metadata --dataset_url",),
    ),
    "programs/cli_tools/commands.py": Expected(
        {"import copy_dataset": "petastorm.tools"}, keeps=True
    ),
    # What no test can run.
    "unrunnable/colab_mnist.ipynb": Expected(
        becomes=(
            'python -c \\"import mdstorm; print(mdstorm.__version__)',
            '!pip install -q \\"mdstorm[torch]\\" pyspark==3.1.2',
            "from mdstorm import make_reader",
            "import mdstorm as petastorm",
        ),
        stays=("file:///content/petastorm_mnist", "github.com/uber/petastorm"),
    ),
    "unrunnable/jupyterlab_features.ipynb": Expected(
        becomes=(
            "from mdstorm.unischema import",
            "from mdstorm import make_reader",
            "from mdstorm.reader import make_batch_reader",
        ),
        stays=("🐘", '"petastorm raw cell"', "helper_petastorm.py", '"name": "petastorm"'),
    ),
    "unrunnable/databricks_export.ipynb": Expected(
        becomes=('%pip install \\"mdstorm[tf]\\"', "from mdstorm.spark import"),
        stays=('SELECT \\"petastorm\\" AS lib', "dbfs:/tmp/petastorm/cache"),
    ),
    "unrunnable/db_source_all_magics.py": Expected(
        becomes=(
            '# MAGIC %pip install "mdstorm[torch]" horovod',
            'bin/pip install "mdstorm[torch]"\n',
            "# MAGIC from mdstorm import make_batch_reader",
            "\nfrom mdstorm.spark import",
        ),
        stays=(
            "# MAGIC %run ./includes/petastorm_setup",
            "ls /dbfs/petastorm",
            "rm -r /petastorm/cache",
            '"./petastorm_cleanup", 60, {"lib": "petastorm"}',
        ),
    ),
    "unrunnable/sparkmagic_session.ipynb.py": Expected(
        {"'configure', '-f'": "etastorm"},
        listed=("'from petastorm.etl.dataset_metadata",),
        becomes=("system('pip install mdstorm')", "\nfrom mdstorm import make_reader"),
    ),
    "unrunnable/airflow_dag.py": Expected(
        listed=("py_files='/opt/wheels/petastorm", "petastorm-generate-metadata.py"),
        becomes=("requirements=['mdstorm", "    from mdstorm.etl.dataset_metadata import"),
        stays=("DAG('petastorm_etl'", "tags=['petastorm']", "hdfs:///warehouse/petastorm/x"),
    ),
    "unrunnable/ray_tune_trial.py": Expected(
        becomes=(
            '{"pip": ["mdstorm',
            "import mdstorm.pytorch, mdstorm.reader",
            "from mdstorm import make_batch_reader",
        ),
        stays=('"petastorm_tune"', '"s3://bucket/petastorm"', '"PETASTORM_LOG"'),
    ),
    "unrunnable/horovod_estimator_custom.py": Expected(
        {"import compat_get_metadata": ""},
        listed=(
            "import _generate_unischema_metadata",
            "import synthetic_dataset",
            "from examples.mnist.schema import",
            "import GCSFSWrapper",
        ),
        stays=("'/dbfs/petastorm'",),
    ),
    "unrunnable/sagemaker_entry.py": Expected(
        becomes=("os.system('pip install --upgrade", "from mdstorm import make_batch_reader"),
        stays=("'SM_CHANNEL_PETASTORM'",),
    ),
    "unrunnable/python2_script.py": Expected(error="print"),
    "unrunnable/latin1_crlf.py": Expected(
        becomes=(
            "from mdstorm import make_reader\r\nfrom mdstorm.unischema import (Unischema,\r\n",
        ),
        stays=("# données petastorm\r\n",),
    ),
    "unrunnable/utf8_bom_tabs.py": Expected(
        becomes=("\ufeffimport mdstorm\nif mdstorm:\n\tfrom mdstorm.pytorch import \\\n",)
    ),
    "unrunnable/jupytext_percent.py": Expected(
        becomes=("# !pip install mdstorm", "\nfrom mdstorm import make_reader\n"),
        stays=("name: petastorm-env", "# # Reading with petastorm"),
    ),
    "unrunnable/tutorial_jupytext.md": Expected(
        becomes=("\nfrom mdstorm import make_batch_reader\n", "\nfrom mdstorm.pytorch import"),
        stays=("Petastorm was written at Uber.",),
    ),
    "unrunnable/requirements-train.txt": Expected(
        # mdstorm cannot be installed on that Python, so a person decides.
        {
            'petastorm[tf_gpu]>=0.9; python_version < "3.8"': "mdstorm does not support",
            "git+https://github.com/uber/petastorm": "require mdstorm",
        },
        becomes=("mdstorm          # via -r base.in",),
        stays=("petastorm-helpers==1.0", "pyspark==3.1.2"),
    ),
    "unrunnable/Dockerfile": Expected(
        becomes=(
            'python -c "import mdstorm"',
            "install --no-cache-dir mdstorm &&",
            'pip install "mdstorm[torch,images]"',
        ),
        stays=("PETASTORM_HOME=/opt/petastorm", "COPY generate_petastorm.py"),
    ),
    "unrunnable/environment.yml": Expected(
        becomes=("  - python=3.8\n  - pip:\n      - mdstorm[tf]",), stays=("name: petastorm-train",)
    ),
    "unrunnable/setup.py": Expected(
        {"our-copy=petastorm.tools": "Petastorm"},
        becomes=(
            "REQS = ['mdstorm', 'numpy']",
            "{'tf': ['mdstorm[tf]'], 'petastorm': [\"mdstorm\"]}",
        ),
        stays=("name='our-petastorm-tools'", "ours=ours.petastorm_cli:main", "petastorm-tools'"),
    ),
    "unrunnable/pyproject.toml": Expected(
        {"copyds = ": "entry point"},
        becomes=(
            '"mdstorm[torch]"',
            'petastorm = ["mdstorm"]',
            "mdstorm = {",
            'module = ["mdstorm.*"',
            'known_third_party = ["mdstorm"]',
        ),
    ),
    "unrunnable/tox.ini": Expected(
        becomes=("petastorm011: mdstorm",), stays=("envlist = py{38,39}-petastorm{011,012}",)
    ),
    "unrunnable/ci.yml": Expected(
        becomes=("pip install mdstorm\n", 'python -c "from mdstorm import make_reader"')
    ),
    "unrunnable/databricks_bundle.yml": Expected(
        becomes=('{package: "mdstorm"}',),
        stays=("petastorm_utils-1.0-py3", "bundle: {name: petastorm-train}", "/dbfs/tmp/petastorm"),
    ),
    "unrunnable/cluster.tf": Expected({"pypi { package = ": "Petastorm"}),
    "unrunnable/Makefile": Expected(
        {"PETASTORM ?=": "Petastorm"},
        listed=("petastorm-copy-dataset.py",),
        becomes=('pip install "mdstorm[tf]"',),
        stays=("pip install $(PETASTORM)",),
    ),
    "unrunnable/bootstrap.sh": Expected(
        listed=("spark-submit",),
        becomes=("pip install 'mdstorm'", "python3 -c 'import mdstorm.reader as r; print(r)'"),
        stays=("hdfs:///petastorm", "\nfrom petastorm import make_reader"),
        unsafe=True,
    ),
    "unrunnable/analysis.R": Expected(untouched=True),
    "unrunnable/Job.scala": Expected(untouched=True),
    "programs/databricks_converter_keras.py": Expected(
        {"for f in converter_train.file_urls)": "points to MDS shards"}, keeps=True
    ),
    "programs/metadata_stats.py": Expected(
        {"pickle.loads(md": "a pickle of Petastorm"}, keeps=True
    ),
    "programs/reader_internals_walk.py": Expected(
        {"p.get_metadata().num_rows": "get_metadata"}, listed=("partitions",), keeps=True
    ),
    "programs/cli_tools/cli.py": Expected(untouched=True, listed=("petastorm-copy-dataset.py",)),
    # Where mdstorm differs from Petastorm.
    "programs/dtype_catalogue.py": Expected(
        computes=[
            {
                "f_arr": "ndarrayuint16",
                "f_bool": np.bool_.__name__,
                "f_dec": "Decimal",
                "f_float32": "float32",
                "f_float64": "float64",
                "f_int16": "int16",
                "f_int32": "int32",
                "f_int64": "int64",
                "f_int8": "int8",
                "f_nat": "str_",
                "f_uint8": "uint8",
            },
            {
                "arr": "float32",
                "bin": "object",
                "d": "object",
                "dec": "object",
                "none": "float64",
                "ts": "datetime64[ns]",
            },
            {
                "arr": "float32",
                "bin": "bytes_",
                "d": "datetime64",
                "dec": "Decimal",
                "none": "int32",
                "ts": "datetime64",
            },
            86400000000000,
        ],
        why="NumPy 2 calls the type of booleans `bool`.",
    ),
    "programs/error_handling.py": Expected(
        computes=[
            "NoData: NoDataAvailableError",
            "OSError",
            "ValueError: cur_shard and shard_count must be ints and both specified, w",
            "ValueError: cur_shard and shard_count must be ints and both specified, w",
            "ValueError: iterations must be positive integer or None, found num_epoch",
            "ValueError: iterations must be positive integer or None, found num_epoch",
            "ValueError: No fields matching the criteria '['^nope$']' were found in t",
            "boom",
            0,
        ],
        why="mdstorm's errors are also `ValueError`s; a shard beyond the count is one.",
    ),
    "programs/hvd_keras_backend/backend.py": Expected(
        computes={"ranks": [[8, 15.0, True], [8, 15.0, True]]}, why="Shards have equally many rows."
    ),
    "programs/inmem_loader_epochs.py": Expected(
        computes={"parallel": "allowed"}, why="Two passes at once are not refused."
    ),
    "programs/partition_columns.py": Expected(
        computes={"shards": [6, 3]}, why="Shards have equally many rows, also of fewer row groups."
    ),
    "programs/spark_rdd_schema.py": Expected(
        computes=[
            [[0, 0.0], [1, 1.0], [2, 3.0], [3, 6.0], [4, 10.0], [5, 15.0]],
            ["LongType()", "BinaryType()", "BinaryType()"],
            ["id", "img", "vec"],
            True,
            ["EncodingTypeError", "InvalidArgumentError", "EncodingError"],
            ["id", "img"],
            True,
        ],
        why="mdstorm's errors are subclasses of `ValueError`.",
    ),
    "programs/transform_zoo.py": Expected(
        computes={
            "err": "User can only specify one of removed_fields and selected_fields: "
            "name the columns to drop or the columns to keep, not both"
        },
        why="A message says more.",
    ),
    "programs/weighted_mixing.py": Expected(
        computes=[
            19,
            [True, None, ["id", "v"]],
            35,
            [
                "Two or more readers must be specified. Got 1. Iterate over a single reader itself",
                "readers and probabilities are expected to be lists of the same length, "
                "found 2 and 1",
            ],
        ],
        why="Messages say more.",
    ),
}
