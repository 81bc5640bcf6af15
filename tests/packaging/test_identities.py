"""Every module that uses one of a dataset's two identities is listed, so that a new one chooses.

States and ranks compare the fingerprint, which does not depend on when the data were written. What
is kept beyond a process, and was computed from the data, is kept under the content identity.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"mdstorm": ROOT / "compat", "mdstorm_backend": ROOT / "mds_backend"}

#: The modules that read an attribute of datasets, and what for.
USES = {
    "fingerprint": {
        "mdstorm/_datasets/decoded_source.py": "part of a view's fingerprint",
        "mdstorm/_datasets/logged_data.py": "compared, of the data of a run",
        "mdstorm/_datasets/stored_place.py": "whether the URL stands for all files",
        "mdstorm/_readers/options.py": "compared, of the data before filters leave out shards",
        "mdstorm/_selection/shard_views.py": "part of a view's fingerprint",
        "mdstorm/cli/datasets.py": "shown",
        "mdstorm_backend/cache/dataset_files.py": "with the index's time, names cached shards",
        "mdstorm_backend/cache/fetched_files.py": "names the directory of copies of files",
        "mdstorm_backend/datasets/added_columns.py": "a view's fingerprint",
        "mdstorm_backend/datasets/chosen_rows.py": "part of a view's fingerprint",
        "mdstorm_backend/datasets/dataset.py": "part of a view's fingerprint",
        "mdstorm_backend/datasets/kept_values.py": "names the directory of kept values",
        "mdstorm_backend/datasets/matching_rows.py": "names the directory of kept rows",
        "mdstorm_backend/datasets/open_streams.py": "part of a view's fingerprint",
        "mdstorm_backend/loaders/agreement.py": "compared",
        "mdstorm_backend/loaders/reader_options.py": "compared",
        "mdstorm_backend/maintenance/inspect.py": "shown",
        "mdstorm_backend/maintenance/verify.py": "whether these are all shards",
        "mdstorm_backend/order/weighted_order.py": "whether its draws are of these rows",
        "mdstorm_backend/parquet/parquet_dataset.py": "with the files' times, names cached files",
        "mdstorm_backend/read/sample_source.py": "part of a view's fingerprint",
    },
    "content_identity": {
        "mdstorm/_datasets/logged_data.py": "compared, of the data of a run",
        "mdstorm/_mlflow/inputs.py": "the digest of an input in MLflow",
        "mdstorm/_readers/kept_shares.py": "rows in a local-disk cache",
        "mdstorm/_selection/row_group_index.py": "row group indexes of MDS",
        "mdstorm_backend/convert/parquet_to_mds.py": "shards of an interrupted conversion",
        "mdstorm_backend/datasets/kept_values.py": "values of a column of weights or classes",
        "mdstorm_backend/datasets/matching_rows.py": "rows that match conditions",
    },
}


def reads(path: Path, name: str) -> bool:
    source = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(source)) if f".{name}" in source else ()
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in nodes)


@pytest.mark.parametrize("name", USES)
def test_modules_that_use_an_identity_are_listed(name: str) -> None:
    found = {
        str(path.relative_to(root))
        for package, root in PACKAGES.items()
        for path in (root / package).rglob("*.py")
        if reads(path, name)
    }
    assert found == USES[name].keys()
