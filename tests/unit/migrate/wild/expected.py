"""For each file, the migration result that an experienced user of Petastorm expects.

The results were written by looking only at the programs, not at the tool, except for the text that
marks a TODO. Files that are not listed are expected to be migrated completely.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["EXPECTED", "Expected"]


@dataclass(frozen=True)
class Expected:
    """The expected result for one file.

    Attributes
    ----------
    todo : dict of str to str
        Maps a part of a line that needs manual work to words of the TODO above it.
    listed : tuple of str
        Text of lines that the report names without a comment: further places with the same cause,
        and lines that no rule edits.
    becomes, stays : tuple of str
        Text that the output has, and text of the source that it must not change.
    untouched : bool
        Whether the file stays as it is.
    unsafe : bool
        Whether edits need `--unsafe`; the other expectations then hold with it.
    keeps : bool
        Whether the file runs only with Petastorm until the TODO is resolved.
    error : str
        Words of the reason why the file, or a part of it, cannot be migrated.
    computes : object
        What the migrated program returns where mdstorm differs from Petastorm.
    why : str
        The difference, for the reader.
    """

    todo: dict[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    becomes: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    untouched: bool = False
    unsafe: bool = False
    keeps: bool = False
    error: str = ""
    computes: Any = None
    why: str = ""


EXPECTED: dict[str, Expected] = {
    # Uses of Petastorm that are reported, because edits alone cannot migrate them.
    "programs/conditional_on_version.py": Expected(
        {"if Version(petastorm.__version__)": "decide which branch is right"}, keeps=True
    ),
    "programs/monkeypatching.py": Expected(
        {
            "old = petastorm_internal": "_FILE_AVAILABILITY_WAIT_TIMEOUT_SECS",
            "_SECS = 2": "is replaced at run time",
        },
        listed=("_SECS = old",),
        keeps=True,
    ),
    "programs/errors_handled.py": Expected({"batchsize=3": "an argument `batchsize`"}),
    "programs/private_helpers.py": Expected(
        {"import _convert_vector": "is private to Petastorm"},
        stays=("from petastorm.pytorch import _sanitize_pytorch_types",),
        keeps=True,
    ),
    "programs/reader_escapes_with.py": Expected({"return loader": "closed when the function"}),
    "programs/wrong_arguments.py": Expected(
        {"shuffle=True": "argument `shuffle`"}, listed=("pin_memory=True",)
    ),
    "programs/shuffle_options_old_api.py": Expected(
        {"import ShuffleOptions": "petastorm.reader.ShuffleOptions`"},
        becomes=("import BatchedDataLoader as BatchDataLoader",),
        unsafe=True,
    ),
    # Module names in strings, some of which are assembled at run time.
    "programs/dynamic_name.py": Expected({'BACKEND = "petastorm"': "resolves names"}, keeps=True),
    "programs/modules_in_tables.py": Expected(
        {'REQUIRED = ("petastorm", "petastorm.pytorch"': "resolves names"},
        listed=('package="petastorm"', "NOISY = {"),
        keeps=True,
    ),
    "programs/dataclass_hydra_config.py": Expected(
        {'backend: str = "petastorm"': "resolves names"},
        listed=('DataConf("petastorm.pytorch.BatchedDataLoader"',),
        stays=('backend: str = "petastorm"', '_target_: str = "petastorm.pytorch.DataLoader"'),
        keeps=True,
    ),
    "unrunnable/spark_submit_strings.py": Expected(
        {"CODE =": "imports Petastorm", '"-c", "import petastorm': "imports Petastorm"},
        listed=('exec("from petastorm', 'eval("petastorm.make_reader")'),
        stays=('"petastorm==0.12.1"',),
    ),
    # Words that only look like names from the library.
    "programs/shadowed_name.py": Expected(untouched=True),
    "programs/abstract_storage_engine.py": Expected(
        stays=('PETASTORM = "petastorm"', '"/mnt/petastorm_cache"', "petastorm = get_engine(")
    ),
    "programs/rename_in_local_scope.py": Expected(stays=("nonlocal petastorm_spark",)),
    "projects/neighbour_named_petastorm/main.py": Expected(
        {"import petastorm": "the neighbouring"}, stays=('sys.modules.pop("petastorm", None)',)
    ),
    "projects/plugin_registry/main.py": Expected(untouched=True),
    "projects/plugin_registry/plugins/petastorm_plugin.py": Expected(
        stays=('@register("petastorm")', "class PetastormPlugin")
    ),
    "projects/plugin_registry/pyproject.toml": Expected(
        becomes=("'mdstorm[torch] ; python_version",),
        stays=('petastorm = "plugins.petastorm_plugin:PetastormPlugin"',),
    ),
    # Requirements, settings and tests in projects.
    "projects/monorepo_etl_train/requirements.txt": Expected(becomes=("\nmdstorm  # reads",)),
    "projects/monorepo_etl_train/setup.cfg": Expected(
        becomes=("    mdstorm\n", "FutureWarning:mdstorm.*")
    ),
    "projects/tests_and_conftest/tox.ini": Expected(becomes=("    mdstorm\n", ":mdstorm.reader")),
    "projects/tests_and_conftest/tests/conftest.py": Expected(
        {"monkeypatch.setattr(": "_FILE_AVAILABILITY_WAIT_TIMEOUT_SECS"}
    ),
    "projects/tests_and_conftest/tests/test_loader.py": Expected(
        becomes=('{"mdstorm": None, "mdstorm.spark": None}', 'importorskip("mdstorm")')
    ),
    "projects/config_yaml_factory/conf.json": Expected(
        becomes=('"_target_": "mdstorm.make_batch_reader"', '"mdstorm.pytorch.DataLoader"'),
        stays=('"experiment": "petastorm"',),
    ),
    # Files that no test can run.
    "unrunnable/airflow_dag.py": Expected(
        todo={"petastorm-copy-dataset.py": "needs Petastorm until you replace it"},
    ),
    "unrunnable/bom_crlf_no_newline.py": Expected(
        becomes=(
            "\ufeff# -*- coding: utf-8 -*-\r\nfrom mdstorm import make_reader\r\n\r\nr = make",
        )
    ),
    "unrunnable/databricks_magic_scala.py": Expected(
        stays=('spark.table("petastorm.trips")', "# MAGIC %sql SET petastorm.spark")
    ),
    "unrunnable/databricks_source.py": Expected(
        becomes=(
            'dbutils.library.installPyPI("mdstorm[torch]")',
            '%pip install "mdstorm[torch]" torchvision',
            'pip install --upgrade "mdstorm[torch]" &&',
        ),
        stays=("# MAGIC # Image training with petastorm", "!nvidia-smi", "/dbfs/tmp/petastorm"),
    ),
    "unrunnable/horovod_spark_estimator.py": Expected(
        stays=("class PetastormAsyncDataLoader(BatchedDataLoader)", 'petastorm_hdfs_driver = "lib')
    ),
    "unrunnable/jupyter_colab.ipynb": Expected(
        becomes=("!pip install -q mdstorm[tf] pyspark", "from mdstorm.tf_utils import"),
        stays=("from petastorm import make_reader\\n", "pip freeze | grep petastorm", "🌩"),
    ),
    "unrunnable/jupyter_state_between_cells.ipynb": Expected(
        becomes=("r = mdstorm.make_batch_reader(url)",),
        stays=('"from petastorm import make_reader\\n"',),
    ),
    "unrunnable/jupyter_sparkmagic.ipynb": Expected(
        becomes=("from mdstorm import make_reader", 'sc.install_pypi_package(\\"mdstorm')
    ),
    "unrunnable/jupyter_unparsable_cell.ipynb": Expected(
        becomes=('pip install \\"mdstorm[torch]\\"', "from mdstorm.reader import make_reader")
    ),
    "unrunnable/python2_print.py": Expected(error="print"),
    "unrunnable/latin1_source.py": Expected(stays=('name = "für petastorm"', "# Größe")),
    "unrunnable/legacy_transform_argument.py": Expected(
        {
            "from petastorm.reader import": "`ShuffleOptions`",
            "import ThreadPool": "not in mdstorm",
            "import depickle_legacy": "not in mdstorm",
            "reader = Reader(url": "constructs a `Reader` directly",
            "transform=lambda": "pass transform_spec=",
        },
    ),
    "unrunnable/monkeypatch_internals.py": Expected(
        {
            "import BatchedRandomShufflingBuffer": "not in mdstorm",
            "import ArrowTableSerializer": "not in mdstorm",
            "make_spark_converter = tracked": "make_spark_converter`",
            "._cache_df_meta_list[:]": "is private to Petastorm",
        },
        listed=(
            "petastorm.spark.make_spark_converter = tracked",
            "setattr(petastorm",
            "petastorm.reader.Reader.__del__",
        ),
    ),
    "unrunnable/percent_cells.py": Expected({"run_line_magic": "Petastorm"}),
    "unrunnable/pool_from_elsewhere.py": Expected(
        {
            "from petastorm.reader import": "petastorm.reader.ThreadPool`",
            "import reader_throughput": "not in mdstorm",
            "import HdfsNamenodeResolver": "not in mdstorm",
            "import create_test_dataset": "not in mdstorm",
        },
    ),
    "unrunnable/ray_mlflow_platform.py": Expected(
        becomes=('pip_requirements=["torch", "mdstorm', 'runtime_env={"pip": ["mdstorm'),
        stays=('"/Users/a/petastorm"', 'mlflow.log_param("loader", "petastorm")'),
    ),
    "unrunnable/typed_protocols.py": Expected(
        becomes=("mdstorm as petastorm",), why="types in strings find it under the old name"
    ),
    "unrunnable/asks_for_the_library.py": Expected(
        listed=("if 'petastorm' not in subprocess",),
        becomes=(
            'if "mdstorm" in str(exc) or exc.name == "mdstorm"',
            "if 'mdstorm' in sys.modules",
            "pip3 install mdstorm",
        ),
        stays=("pytest.mark.petastorm", "DeprecationWarning:petastorm.*"),
    ),
    "unrunnable/configuration_in_strings.py": Expected(
        {"cls = hydra": "must be resolved first", "SETTINGS =": "resolves names"},
        listed=("_target_: petastorm.pytorch", "obj = import_from_string"),
        stays=(
            '{"_target_": "petastorm.make_reader"',
            '{"_target_": "petastorm.TransformSpec"}',
            '"backend": "petastorm"',
            "reader: petastorm\n",
        ),
    ),
    "unrunnable/loggers_in_tables.py": Expected(
        listed=("NOISY = [", "PYTHONWARNINGS"),
        becomes=(
            '{"mdstorm": {"level": "ERROR"}, "mdstorm.reader"',
            'assert type(os).__module__ != "mdstorm.reader"',
        ),
        stays=('"ignore::FutureWarning:petastorm"',),
        unsafe=True,
    ),
    # Code for old versions of Petastorm, and attributes that mdstorm's objects do not have.
    "unrunnable/old_arguments.py": Expected(
        {
            'COMMON["s3_config_kwargs"]': "pass storage_options= instead",
            'yield make_reader(url, ["a", "b"]': "pass the rest by keyword",
            "cached = partial(": "inmemory_cache_all",
            "with materialize_dataset(": "pass filesystem_factory=",
        },
        listed=('yield make_batch_reader(url, None, "process"',),
        stays=("from petastorm import make_batch_reader, make_reader",),
    ),
    "unrunnable/parts_by_variable.py": Expected(
        {
            "MAJOR, MINOR": "decide which branch is right",
            "piece.get_metadata()": "pyarrow.parquet.read_metadata(piece.path)",
            "filesystem.read_parquet": "pyarrow.parquet.read_table",
            "library.reader.ReaderV2": "in neither mdstorm nor Petastorm",
        },
        listed=(".__module__.startswith",),
        stays=("from petastorm import make_reader",),
    ),
    "unrunnable/names_in_scopes.py": Expected(
        becomes=("import os, mdstorm, sys  # both",),
        stays=(
            "petastorm = args.petastorm",
            "petastorm = 3\n    x = petastorm + 1",
            "petastorm.trips",
        ),
    ),
    # Behaviour that differs in mdstorm.
    "programs/nulls_and_types_torch.py": Expected(
        computes={"error": None}, why="strings become lists in PyTorch"
    ),
    "programs/tf_dataset_strings_dates.py": Expected(
        computes="NullValueError", why="TensorFlow has no nulls; Petastorm returns numbers"
    ),
    "programs/weighted_mix.py": Expected(
        computes=[0, 0, 0, 0, 0], why="Petastorm's reader fails with today's NumPy"
    ),
}
