"""What an experienced user of Petastorm expects of the migration of these programs, file by file.

Written by one who had read neither the rules nor the documentation of the tool. A file that is not
listed is expected to need no work: all of it is edited, and nothing of Petastorm is left.
"""

from __future__ import annotations

from tests.migrate.wild.expected import Expected

__all__ = ["EXPECTED"]

EXPECTED: dict[str, Expected] = {
    # Versions of Petastorm say nothing of mdstorm.
    "programs/version_gates.py": Expected(
        {
            "PETASTORM_GE_0_9 =": "",
            "if LooseVersion(petastorm.__version__)": "",
            "Version(petastorm.__version__) > Version": "",
        },
        stays=("installed('petastorm-extras')", "PETASTORM_GE_0_9 ="),
        keeps=True,
    ),
    # Private parts, and parts that mdstorm does not have.
    "programs/custom_codec_pipeline.py": Expected(
        {"legacy.safe_modules =": "safe_modules"},
        becomes=('"mdstorm.unischema.UnischemaField"',),
        keeps=True,
    ),
    "programs/codec_registration.py": Expected(
        {"sys.modules['petastorm.ext_codecs'] =": "ext_codecs"}, keeps=True
    ),
    "programs/monkeypatch_fs.py": Expected(
        {
            "get_filesystem_and_path_or_paths = _traced": "get_filesystem_and_path_or_paths",
            "get_filesystem_and_path_or_paths = _orig": "get_filesystem_and_path_or_paths",
        },
        keeps=True,
    ),
    "programs/pools_compare.py": Expected(
        {"import EmptyResultError": "EmptyResultError"}, keeps=True
    ),
    "programs/pickled_artifacts.py": Expected(
        {"_fields_as_tuple": "_fields_as_tuple", "SAFE = (": ""}, keeps=True
    ),
    "programs/predicate_pushdown_selfmade.py": Expected(
        {
            "import ArrowReaderWorker": "",
            "import PyDictReaderWorker": "",
            "_filter_row_groups(": "_filter_row_groups",
            "r._workers_pool": "_workers_pool",
            "hasattr(petastorm.reader": "_VENTILATE_EXTRA_ROWGROUPS",
        },
        keeps=True,
    ),
    "programs/hdfs_namenode_tools.py": Expected(
        {
            "from petastorm.hdfs.namenode import": "",
            "patch('petastorm.hdfs.namenode": "",
        },
        keeps=True,
    ),
    "programs/shuffling_analysis_tool.py": Expected(
        {"import generate_shuffle_analysis_dataset": ""}, keeps=True
    ),
    "programs/pytest_suite/test_data_access.py": Expected(
        {"from petastorm.tests.test_common import": ""},
        stays=("'WARNING:data_access:petastorm: '",),
        keeps=True,
    ),
    # Programs in strings.
    "programs/multiproc_readers.py": Expected({"WORKER = r'''": ""}),
    "programs/env_yaml_factory.py": Expected(
        {'CONFIG = """': ""},
        becomes=("'mdstorm.reader': {'level'", "logging.getLogger('mdstorm.reader')"),
        stays=("'PETASTORM_HOME'", "'--conf spark.petastorm=1'", "SPARK_PETASTORM_OPTS"),
        unsafe=True,
    ),
    "programs/vision_repo/config.py": Expected({"_DEFAULT = json.loads('''": ""}),
    # A message that tells its readers what to install.
    "programs/lazy_optional.py": Expected(
        {"raise ImportError(": ""},
        becomes=("LazyModule('mdstorm.tf_utils')", "LazyModule('mdstorm.pytorch')"),
        unsafe=True,
    ),
    # Names in strings, of other files too.
    "programs/plugin_registry/registry.py": Expected(
        becomes=("'mdstorm:make_batch_reader'", "'mdstorm.reader:make_reader'"), unsafe=True
    ),
    "programs/plugin_registry/plugins.json": Expected(
        becomes=('"mdstorm:make_batch_reader"', '"mdstorm.reader:make_reader"'), unsafe=True
    ),
    "programs/plugin_registry/main.py": Expected(
        becomes=("'mdstorm.transform:TransformSpec'",), unsafe=True
    ),
    "programs/pytest_suite/test_mocks.py": Expected(
        becomes=(
            "'mdstorm.make_batch_reader'",
            "'mdstorm.pytorch': mock.MagicMock()",
            "sys.modules['mdstorm.pytorch']",
            "mock.patch.object(data_access.mdstorm, ",
            "'data_access.mdstorm.make_batch_reader'",
        ),
    ),
    "programs/pytest_suite/data_access.py": Expected(stays=("logger.warning('petastorm: %s', e)",)),
    "programs/mocks_reader_mock.py": Expected(
        becomes=("patch('mdstorm.reader.make_reader')", "patch('mdstorm.make_reader', ")
    ),
    "programs/converter_cache_reuse.py": Expected(
        becomes=("logging.getLogger('mdstorm.spark.spark_dataset_converter')",)
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
    "programs/estimator_platform/main.py": Expected(untouched=True),
    # Words that only look like the library.
    "programs/research_globals.py": Expected(
        stays=("'--petastorm-cache', dest='petastorm_cache'", "FLAGS.petastorm_cache")
    ),
    "programs/caches_local_disk.py": Expected(stays=("petastorm_cache_dir(", "'petastorm_cache_'")),
    "programs/url_zoo.py": Expected(
        stays=("'s3://bucket/petastorm/ds'", "'hdfs://nameservice1/petastorm_data'")
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
    "programs/sized_streams_typed.py": Expected(
        becomes=(
            "TypeVar('T_', bound='mdstorm.reader.Reader')",
            "cast('mdstorm.reader.Reader', self.reader)",
            '"mdstorm.unischema.Unischema | None"',
            "# type: (...) -> mdstorm.unischema.Unischema",
            "# type: mdstorm.reader.Reader",
        )
    ),
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
    ),
    "programs/ranking_lib/settings.py": Expected(stays=("'PETASTORM_CACHE_DIR'",)),
    "programs/feature_store/main.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/__init__.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/store.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/engines.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/petastorm_engine.py": Expected(
        becomes=("import mdstorm as _petastorm",), stays=("class PetastormEngine",)
    ),
    "programs/tfx_like/main.py": Expected(untouched=True),
    "programs/tfx_like/artifacts.py": Expected(untouched=True),
    "programs/tfx_like/components.py": Expected(untouched=True),
    "programs/hvd_keras_backend/main.py": Expected(untouched=True),
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
    "programs/hpo_sweep/sweep.json": Expected(
        becomes=('"mdstorm.spark.converter.parentCacheDirUrl"',),
        stays=('"loader": "petastorm"', "/dbfs/tmp/petastorm"),
        unsafe=True,
    ),
    "programs/cli_tools/main.py": Expected(untouched=True),
    "programs/cli_tools/requirements.txt": Expected(
        becomes=("mdstorm[tf,torch]",), stays=("pyspark>=3.0",)
    ),
    "programs/cli_tools/run.sh": Expected(
        becomes=("python -m mdstorm.tools.copy_dataset file:///data/src",)
    ),
    # What no test can run.
    "unrunnable/colab_mnist.ipynb": Expected(
        {"petastorm-copy-dataset.py file:///a": ""},
        becomes=(
            "!pip install -q mdstorm pyspark==3.1.2",
            "from mdstorm import make_reader",
            "mdstorm.make_batch_reader?",
            "?mdstorm.reader.Reader",
            "print(mdstorm.__version__)",
        ),
        stays=("file:///content/petastorm_mnist", "github.com/uber/petastorm"),
    ),
    "unrunnable/jupyterlab_features.ipynb": Expected(
        becomes=(
            "from mdstorm.unischema import",
            "from mdstorm import make_reader",
            "from mdstorm.reader import make_batch_reader",
            "!python -m mdstorm.etl.petastorm_generate_metadata",
        ),
        stays=("🐘", '"petastorm raw cell"', "helper_petastorm.py", '"name": "petastorm"'),
    ),
    "unrunnable/databricks_export.ipynb": Expected(
        becomes=("%pip install mdstorm", "from mdstorm.spark import"),
        stays=('SELECT \\"petastorm\\" AS lib', "dbfs:/tmp/petastorm/cache"),
    ),
    "unrunnable/db_source_all_magics.py": Expected(
        {
            'python -c "from petastorm import make_reader"': "",
            'petastorm <- import("petastorm")': "",
        },
        becomes=(
            "# MAGIC %pip install mdstorm horovod",
            "bin/pip install mdstorm\n",
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
        {
            "'configure', '-f'": "",
            "'from petastorm.etl.dataset_metadata": "",
            "system('pip install petastorm')": "",
        },
        becomes=("\nfrom mdstorm import make_reader",),
    ),
    "unrunnable/airflow_dag.py": Expected(
        {
            "gen = SparkSubmitOperator": "",
            "meta = BashOperator": "",
            "verify = PythonVirtualenvOperator": "",
        },
        becomes=("    from mdstorm.etl.dataset_metadata import",),
        stays=("DAG('petastorm_etl'", "tags=['petastorm']", "hdfs:///warehouse/petastorm/x"),
    ),
    "unrunnable/ray_tune_trial.py": Expected(
        {"@ray.remote(runtime_env": ""},
        becomes=("import mdstorm.pytorch, mdstorm.reader", "from mdstorm import make_batch_reader"),
        stays=('"petastorm_tune"', '"s3://bucket/petastorm"', '"PETASTORM_LOG"'),
    ),
    "unrunnable/horovod_estimator_custom.py": Expected(
        {
            "import compat_get_metadata": "",
            "import _generate_unischema_metadata": "",
            "import synthetic_dataset": "",
            "import GCSFSWrapper": "",
        },
        stays=("'/dbfs/petastorm'",),
    ),
    "unrunnable/sagemaker_entry.py": Expected(
        {"subprocess.check_call(": "", "os.system('pip install": ""},
        becomes=("from mdstorm import make_batch_reader",),
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
        becomes=("mdstorm          # via -r base.in", 'python_version < "3.8"'),
        stays=("petastorm-helpers==1.0", "pyspark==3.1.2"),
    ),
    "unrunnable/Dockerfile": Expected(
        becomes=('pip install "mdstorm[torch', 'python -c "import mdstorm"'),
        stays=("PETASTORM_HOME=/opt/petastorm", "COPY generate_petastorm.py"),
    ),
    "unrunnable/environment.yml": Expected(
        becomes=("    - mdstorm[tf]",), stays=("name: petastorm-train",)
    ),
    "unrunnable/setup.py": Expected(
        becomes=(
            "REQS = ['mdstorm', 'numpy']",
            "{'tf': ['mdstorm[tf]'], 'petastorm': [\"mdstorm\"]}",
            "our-copy=mdstorm.tools.copy_dataset:main",
        ),
        stays=("name='our-petastorm-tools'", "ours=ours.petastorm_cli:main", "petastorm-tools'"),
    ),
    "unrunnable/pyproject.toml": Expected(
        becomes=(
            '"mdstorm[torch]"',
            'petastorm = ["mdstorm"]',
            'copyds = "mdstorm.tools.copy_dataset:main"',
            "mdstorm = {",
            'module = ["mdstorm.*"',
            'known_third_party = ["mdstorm"]',
        )
    ),
    "unrunnable/tox.ini": Expected(
        becomes=("petastorm011: mdstorm\n", "petastorm012: mdstorm\n"),
        stays=("envlist = py{38,39}-petastorm{011,012}",),
    ),
    "unrunnable/ci.yml": Expected(
        becomes=('python -c "from mdstorm import make_reader"', "pip install mdstorm")
    ),
    "unrunnable/databricks_bundle.yml": Expected(
        becomes=('{package: "mdstorm"}',),
        stays=("petastorm_utils-1.0-py3", "bundle: {name: petastorm-train}", "/dbfs/tmp/petastorm"),
    ),
    "unrunnable/cluster.tf": Expected(becomes=('pypi { package = "mdstorm" }',)),
    "unrunnable/Makefile": Expected(
        becomes=("python -m mdstorm.etl.petastorm_generate_metadata", 'pip install "mdstorm[tf]"')
    ),
    "unrunnable/bootstrap.sh": Expected(
        becomes=("pip install 'mdstorm' pyarrow==6.0.1", "\nfrom mdstorm import make_reader"),
        stays=("hdfs:///petastorm",),
    ),
    "unrunnable/analysis.R": Expected(untouched=True),
    "unrunnable/Job.scala": Expected(untouched=True),
}
