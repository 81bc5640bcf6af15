"""For each file in this folder, the migration result that an experienced Petastorm user expects.

The author had read neither the rules nor the documentation of the tool. A file that is not listed
is expected to need no work: all uses of Petastorm are edited, and none are left.
"""

from __future__ import annotations

from tests.unit.migrate.wild.expected import Expected

__all__ = ["EXPECTED"]

EXPECTED: dict[str, Expected] = {
    # Private names, and names that mdstorm does not have.
    "programs/custom_codec_pipeline.py": Expected(
        {
            "import dataset_metadata, legacy": "petastorm.etl.legacy",
            "legacy.safe_modules = ": "is replaced at run time",
            "class JsonCodec": "custom codec",
        },
        keeps=True,
    ),
    "programs/pickled_artifacts.py": Expected(
        {"_fields_as_tuple": "_fields_as_tuple", "SAFE = (": 'also allow "mdstorm."'}, keeps=True
    ),
    "programs/predicate_pushdown_selfmade.py": Expected(
        {
            "import ArrowReaderWorker": "not in mdstorm",
            "def _filter_row_groups(": "use its public methods",
            "return EvenRowGroupsReader(": "constructs a `Reader` directly",
            "hasattr(petastorm.reader": "is private to Petastorm",
        },
        listed=(
            "import PyDictReaderWorker",
            "super()._filter_row_groups(",
            "r._workers_pool",
            "hasattr(petastorm.reader",
        ),
        keeps=True,
    ),
    "programs/pytest_suite/test_data_access.py": Expected(
        {"from petastorm.tests.test_common import": "petastorm.tests"},
        stays=("'WARNING:data_access:petastorm: '",),
        keeps=True,
    ),
    # Lazy imports, and a message that tells users what to install.
    "programs/lazy_optional.py": Expected(
        {"LazyModule('petastorm.tf_utils')": "petastorm.tf_utils"},
        listed=("LazyModule('petastorm.pytorch')",),
        keeps=True,
    ),
    # Module names in strings, including strings that name the program's own modules.
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
    "programs/converter_cache_reuse.py": Expected(
        {
            "glob.glob(path": "points to MDS shards",
            "spark.read.parquet(c.cache_dir_url)": "points to MDS shards",
        },
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
    # Words that only look like names from the library.
    "programs/research_globals.py": Expected(
        stays=("'--petastorm-cache', dest='petastorm_cache'", "FLAGS.petastorm_cache")
    ),
    "programs/decorators_contexts.py": Expected(
        stays=("with_petastorm_reader", "petastorm_readers")
    ),
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
    "programs/sized_streams_typed.py": Expected(becomes=("import mdstorm as petastorm\n",)),
    # The programs' own modules, some of which have petastorm in their names.
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
    "programs/feature_store/main.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/store.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/engines.py": Expected(untouched=True),
    "programs/feature_store/src/featstore/petastorm_engine.py": Expected(
        becomes=("import mdstorm as _petastorm",), stays=("class PetastormEngine",)
    ),
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
    # Settings, requirements and commands of programs.
    "programs/monorepo/setup.cfg": Expected(
        becomes=("tf = mdstorm[tf]", "[mypy-mdstorm.*]", "known_third_party = mdstorm,torch")
    ),
    "programs/cli_tools/main.py": Expected(untouched=True),
    "programs/cli_tools/requirements.txt": Expected(
        becomes=("mdstorm[tf,torch]",), stays=("pyspark>=3.0",)
    ),
    "programs/cli_tools/run.sh": Expected(
        listed=("petastorm-copy-dataset.py", "petastorm-throughput.py", "petastorm.tools.copy"),
        becomes=("mdstorm-generate-metadata.py --dataset_url",),
    ),
    "programs/cli_tools/commands.py": Expected(
        {"import copy_dataset": "petastorm.tools"}, keeps=True
    ),
    # Files that no test can run.
    "unrunnable/colab_mnist.ipynb": Expected(
        becomes=(
            '!pip install -q \\"mdstorm[torch]\\" petastorm pyspark==3.1.2',  # for the script below
            "from mdstorm import make_reader",
            "import mdstorm as petastorm",
        ),
        stays=(
            "file:///content/petastorm_mnist",
            "github.com/uber/petastorm",
            'python -c \\"import petastorm; print(petastorm.__version__)',
            "petastorm-copy-dataset.py file:///a file:///b",
        ),
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
            # The cell in R imports Petastorm.
            '# MAGIC %pip install "mdstorm[torch]" petastorm==0.9.8 horovod',
            'bin/pip install "mdstorm[torch]" petastorm\n',
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
    "unrunnable/horovod_estimator_custom.py": Expected(
        {
            "import compat_get_metadata": "",
            "import _generate_unischema_metadata": "is private to Petastorm",
            "import synthetic_dataset": "not in mdstorm",
        },
        listed=("import GCSFSWrapper",),
        stays=("'/dbfs/petastorm'",),
    ),
    "unrunnable/tutorial_jupytext.md": Expected(
        becomes=("\nfrom mdstorm import make_batch_reader\n", "\nfrom mdstorm.pytorch import"),
        stays=("Petastorm was written at Uber.",),
    ),
    "unrunnable/requirements-train.txt": Expected(
        # mdstorm cannot be installed on that version of Python, so a person decides.
        {
            'petastorm[tf_gpu]>=0.9; python_version < "3.8"': "mdstorm does not support",
            "git+https://github.com/uber/petastorm": "require mdstorm",
        },
        becomes=("mdstorm          # via -r base.in",),
        stays=("petastorm-helpers==1.0", "pyspark==3.1.2"),
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
    "unrunnable/ci.yml": Expected(
        becomes=("pip install mdstorm\n", 'python -c "from mdstorm import make_reader"')
    ),
    "unrunnable/databricks_bundle.yml": Expected(
        becomes=('{package: "mdstorm"}',),
        stays=("petastorm_utils-1.0-py3", "bundle: {name: petastorm-train}", "/dbfs/tmp/petastorm"),
    ),
    "unrunnable/Job.scala": Expected(untouched=True),
    "programs/databricks_converter_keras.py": Expected(
        {"for f in converter_train.file_urls)": "points to MDS shards"}, keeps=True
    ),
    # Unpickling the schema in the metadata imports Petastorm, which the error names.
    "programs/metadata_stats.py": Expected(becomes=("from mdstorm.codecs",), keeps=True),
    "programs/cli_tools/cli.py": Expected(untouched=True, listed=("petastorm-copy-dataset.py",)),
}
