"""PM113: arguments that neither library accepts."""

import inspect

from tests.migrate.checks import check_finding, each

from mdstorm.codecs import CompressedImageCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths
from mdstorm.ngram import NGram
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.transform import TransformSpec
from mdstorm_migrate.api import migrate
from mdstorm_migrate.petastorm.signatures import ACCEPTED, ADDED


@each(
    ("from petastorm import make_reader\nmake_reader(u, batch_size=3)", "batch_size=3"),
    ("import petastorm\nconverter.make_torch_dataloader(shuffle=True)", "shuffle=True"),
    ("import petastorm\nargs = dict(epochs=1)\nc.make_tf_dataset(**args)", "epochs=1"),
    ("from petastorm.spark import make_spark_converter as m\nm(df, url='x')", "url='x'"),
)
def test_unknown_argument_is_reported_at_its_position(text: str, fragment: str) -> None:
    check_finding(text, "PM113", fragment)


@each(
    "make_reader(u, num_epochs=1, **args)",
    "def f(**args): make_reader(u, **args)",
    "args = {'seed': 1}\nif x: args = {'no': 1}\nmake_reader(u, **args)",
    "converter.make_torch_dataloader(device='cuda', transform_spec=t)",
)
def test_known_or_dynamic_argument_is_not_reported(text: str) -> None:
    found = migrate(f"from petastorm import make_reader\n{text}").findings
    assert not any(one.rule == "PM113" for one in found)


@each(
    make_reader,
    make_batch_reader,
    make_spark_converter,
    materialize_dataset,
    SparkDatasetConverter.make_torch_dataloader,
    SparkDatasetConverter.make_tf_dataset,
    CompressedImageCodec,
    FilesystemResolver,
    NGram,
    TransformSpec,
    get_filesystem_and_path_or_paths,
)
def test_argument_table_matches_signatures(function: object) -> None:
    named = {
        name
        for name, one in inspect.signature(function).parameters.items()  # type: ignore[arg-type]
        if one.kind != one.VAR_KEYWORD and name != "self"
    }
    known = ACCEPTED[function.__name__] | ADDED  # type: ignore[attr-defined]
    assert named <= known
