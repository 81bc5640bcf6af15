"""A folder of wheels that hold nothing but their metadata, for installers to resolve against."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]

#: Distributions with their versions, and what these require.
_OTHERS: dict[str, dict[str, list[str]]] = {
    "numpy": {v: [] for v in ("1.19.5", "1.20.0", "1.20.3", "1.21.6", "1.23.5", "1.26.4", "2.1.0")},
    "pyarrow": {v: [] for v in ("6.0.1", "8.0.0", "10.0.1", "14.0.1", "17.0.0")},
    "pandas": {
        "1.1.5": ["numpy>=1.15.4"],
        "1.3.5": ["numpy>=1.17.3"],
        "1.5.3": ["numpy>=1.20.3"],
        "2.2.2": ["numpy>=1.22.4"],
    },
    "py4j": {"0.10.9": [], "0.10.9.7": []},
    "pyspark": {
        "3.1.2": ["py4j==0.10.9"],
        "3.2.1": ["py4j==0.10.9"],
        "3.5.1": ["py4j==0.10.9.7"],
    },
    "torch": {v: [] for v in ("1.7.1", "1.13.1", "2.0.1", "2.3.0")},
    "torchvision": {
        "0.8.2": ["torch==1.7.1"],
        "0.14.1": ["torch==1.13.1"],
        "0.15.2": ["torch==2.0.1"],
        "0.18.0": ["torch==2.3.0"],
    },
    "tensorflow": {"2.4.1": ["numpy~=1.19.2"], "2.14.1": ["numpy>=1.23.5"], "2.17.0": []},
    "click": {"7.0": [], "7.1.2": [], "8.0.4": [], "8.1.7": []},
    "fsspec": {"2021.10.0": [], "2022.1.0": [], "2023.5.0": [], "2024.6.0": []},
    "s3fs": {
        "2021.10.0": ["fsspec==2021.10.0"],
        "2022.1.0": ["fsspec==2022.1.0"],
        "2024.6.0": ["fsspec==2024.6.0"],
    },
    "rich": {"10.16.2": [], "12.6.0": [], "13.7.1": []},
    "pillow": {"8.4.0": [], "10.3.0": []},
    "scipy": {"1.7.3": ["numpy>=1.16.5,<1.23.0"], "1.13.0": ["numpy>=1.22.4"]},
    "libcst": {"1.4.0": []},
    "pathspec": {"0.12.1": []},
    "deltalake": {"1.5.0": []},
    "databricks-sdk": {"0.30.0": []},
    "mlflow": {"2.14.0": []},
    "packaging": {"24.0": []},
    "pyzmq": {"26.0": []},
    "opencv-python": {"4.10.0.84": []},
    **{
        name: {"5.0": []}
        for name in (
            *("boto3", "dill", "diskcache", "future", "psutil", "pytest", "pyyaml"),
            *("requests", "setuptools", "simplejpeg", "six", "tensorboard", "tomli", "tqdm"),
            *("wheel", "xxhash", "flask", "ruff"),
        )
    },
}
_PETASTORM = [
    *("dill>=0.2.1", "diskcache>=3.0.0", "future>=0.10.2", "numpy>=1.13.3", "packaging>=15.0"),
    *("pandas>=0.19.0", "psutil>=4.0.0", "pyspark>=2.1.0", "pyzmq>=14.0.0", "pyarrow>=0.17.1"),
    *("six>=1.5.0", "fsspec", 'torch>=1.5.0; extra == "torch"', 'torchvision; extra == "torch"'),
    *('tensorflow>=1.14.0; extra == "tf"', 'opencv-python>=3.2; extra == "opencv"'),
]


def make_index(folder: Path) -> None:
    """Write the wheels: mdstorm as ``pyproject.toml`` declares it, Petastorm, and the others."""
    _declared(folder)
    for version in ("0.9.8", "0.11.4", "0.11.5", "0.12.0", "0.12.1"):
        _wheel(folder, "petastorm", version, _PETASTORM, ["opencv", "tf", "torch"])
    for name, versions in _OTHERS.items():
        for version, required in versions.items():
            _wheel(folder, name, version, required, ["sql", "connect"] * (name == "pyspark"))


def _declared(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    mdstorm = list(project["dependencies"])
    for name, required in extras.items():
        if name not in ("all", "dev", "docs"):
            mdstorm += [f'{one}; extra == "{name}"' for one in required]
    _wheel(folder, "mdstorm", "0.2.3", mdstorm, list(extras), project["requires-python"])


def _wheel(
    folder: Path,
    name: str,
    version: str,
    required: list[str],
    extras: list[str],
    python: str = ">=3.6",
) -> None:
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    metadata = [
        *("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"),
        f"Requires-Python: {python}",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {one}" for one in required),
    ]
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
