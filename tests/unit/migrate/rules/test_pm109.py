"""PM109 to PM114, PM128: calls that behave differently in mdstorm."""

from tests.kit.migrating import check_finding, each

from mdstorm_migrate.api import migrate

IMPORTS = """\
from petastorm import make_batch_reader, make_reader
from petastorm.pytorch import BatchedDataLoader, DataLoader
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm.transform import TransformSpec
"""
WITH = "def f():\n    with make_reader(url) as r:\n        {}"


@each(
    ("PM109", "make_reader(url, **options)", "make_reader"),
    ("PM109", "self.conv.make_tf_dataset(batch_size=3, **f(x))", "self.conv.make_tf_dataset"),
    ("PM110", "make_batch_reader(url, hdfs_driver='libhdfs')", "hdfs_driver='libhdfs'"),
    ("PM110", "conv.make_torch_dataloader(filters=x)", "filters=x"),
    ("PM112", "make_spark_converter(df.repartition(8))", "df.repartition(8)"),
    ("PM113", "DataLoader(reader, pin_memory=True)", "pin_memory=True"),
    ("PM113", "with BatchedDataLoader(reader, collate_fn=f) as x: pass", "collate_fn=f"),
    ("PM114", WITH.format("return r"), "return r"),
    ("PM128", "TransformSpec(scale, removed_fields=['x'])", "TransformSpec"),
    ("PM128", "make_reader(url)\nmake_batch_reader(url)\nTransformSpec(func=f)", "TransformSpec"),
    ("PM114", WITH.format("return DataLoader(r, 3)"), "return DataLoader(r, 3)"),
)
def test_call_with_different_behaviour_is_reported(code: str, text: str, fragment: str) -> None:
    check_finding(IMPORTS + text, code, fragment)


@each("def rows(): return r\n        yield from rows()\n", "r = len(list(r))\n    return r\n")
def test_return_by_inner_function_or_after_the_block_is_not_reported(body: str) -> None:
    text = WITH.format(body)
    assert not [one for one in migrate(IMPORTS + text).findings if one.rule == "PM114"]


@each("make_torch_dataloader", "make_tf_dataset")
def test_returned_loader_of_converter_is_not_reported(maker: str) -> None:
    text = f"def f():\n    with converter.{maker}(8) as loader:\n        return loader"
    assert not [one for one in migrate(IMPORTS + text).findings if one.rule == "PM114"]


@each(
    "other.make_reader(url, **options, hdfs_driver=3)",
    "DataLoader(make_reader(url, num_epochs=1), batch_size=3, collate_fn=f)",
    "make_spark_converter(df)",
    "make_spark_converter(df.coalesce(8))",
    "TransformSpec(selected_fields=['x'])",
    "TransformSpec(scale, keeps_rows=True)",
    "make_reader(url, transform_spec=TransformSpec(scale))",
    WITH.format("return score(r)"),
    WITH.format("yield r"),
    "def f(make_reader):\n    make_reader(pin_memory=3)",
    # a loader that may be torch's
    "if local:\n    from torch.utils.data import DataLoader\n"
    "else:\n    from petastorm.pytorch import DataLoader\nDataLoader(data, pin_memory=True)",
)
def test_call_with_same_behaviour_is_not_reported(text: str) -> None:
    assert migrate(IMPORTS + text).findings == ()


@each(("*rest", "`*rest` of make_reader()"), ("**options", "`**options` of make_reader()"))
def test_note_about_unpacked_arguments_shows_them(argument: str, shown: str) -> None:
    (found,) = migrate(f"{IMPORTS}make_reader(url, {argument})").findings
    assert found.message == f"the arguments in {shown} were not checked"
