"""PM119: paths to a converter's files that are passed to code that reads Parquet."""

from pathlib import Path

from tests.kit.migrating import check_finding, check_held, check_rewrite, each

MADE = "from petastorm.spark import make_spark_converter\nc = make_spark_converter(df)\n"


@each(
    ("spark.read.parquet(*c.file_urls)", "c.file_urls"),
    ("glob(f'{c.cache_dir_url}/*.parquet')", "c.cache_dir_url"),
    ("for url in self.c.file_urls: pd.read_parquet(url)", "url"),
    ("pd.read_parquet(c.file_urls[0].replace('file://', ''))", "c.file_urls"),
    ("all(u.endswith('.parquet') for u in c.file_urls)", "u"),
    ("[pq.ParquetFile(u) for u in c.file_urls]", "u"),
    ("u = c.cache_dir_url\nPath(u).read_bytes()", "u"),
    ("for number, u in enumerate(c.file_urls): pq.read_table(u)", "u"),
    ("paths = [u[7:] for u in c.file_urls]\npq.ParquetDataset(paths)", "paths"),
    (
        "spark.sql(\"CREATE TABLE x USING parquet LOCATION '%s'\" % c.cache_dir_url)",
        "c.cache_dir_url",
    ),
    # functions of other libraries, whatever their names
    ("import pyarrow.dataset as ds\nds.dataset(c.file_urls)", "c.file_urls"),
    ("from xgboost_ray import RayDMatrix\nRayDMatrix(data=c.file_urls, label='y')", "c.file_urls"),
    ("import nvtabular\nfor u in c.file_urls: nvtabular.Dataset(u)", "u"),
    ("import dali as d\np = d.Pipeline(1)\np.feed([c.cache_dir_url])", "c.cache_dir_url"),
    # text of queries and commands
    ("spark.sql(f'select * from parquet.`{c.cache_dir_url}`')", "c.cache_dir_url"),
    ("os.system('cp -r %s x' % c.cache_dir_url)", "c.cache_dir_url"),
    ("subprocess.run(['cp', '-r', c.cache_dir_url[7:], 'x'])", "c.cache_dir_url"),
    ("mlflow.log_artifacts(c.cache_dir_url[7:])", "c.cache_dir_url"),
    # results and attributes
    ("def url(): return c.cache_dir_url\npd.read_parquet(url())", "url()"),
    (
        "class A:\n    @property\n    def u(self): return c.cache_dir_url[7:]\n"
        "    def f(self): duckdb.sql(f'from {self.u}')",
        "self.u",
    ),
    ("x = c.cache_dir_url.strip()\ny = os.path.join(x, '*')\nfor z in y: open(z)", "z"),
)
def test_parquet_reader_over_converted_files_blocks_migration(text: str, fragment: str) -> None:
    check_held(MADE + text, "PM119", fragment)


@each(
    ("dbutils.jobs.taskValues.set('url', c.cache_dir_url)", "c.cache_dir_url"),
    ("dbutils.notebook.exit(c.cache_dir_url)", "c.cache_dir_url"),
    ("open('/opt/url.txt', 'w').write(c.cache_dir_url)", "c.cache_dir_url"),
    ("u = c.file_urls\nregistry.set('files', u)", "u"),
    ("import json\njson.dump({'files': c.file_urls}, file)", "c.file_urls"),
)
def test_path_that_others_get_is_reported_and_does_not_block_migration(
    text: str, fragment: str
) -> None:
    check_rewrite(MADE + text, (MADE + text).replace("petastorm", "mdstorm"), todo=False)
    check_finding(MADE + text, "PM119", fragment)


@each(
    "from petastorm import make_batch_reader\nmake_batch_reader(c.file_urls)\n",
    "print(c.cache_dir_url, len(c.file_urls))\nlog.info('%s', c.file_urls)\n",
    "sys.exit(f'no files in {c.cache_dir_url}')\nsys.stderr.write(c.cache_dir_url)\n",
    "assert c.file_urls\nall(u.endswith('/x') for u in c.file_urls)\n",
    "import pandas as pd\npd.concat(map(describe, c.file_urls))\n",
    "import json, mlflow\njson.dumps(c.file_urls)\nmlflow.log_param('u', c.cache_dir_url)\n",
    "from .ours import train\ntrain(c.file_urls)\n",
    "spark.sql(f\"INSERT INTO runs VALUES ('{c.cache_dir_url}')\")\n",
    "u = c.cache_dir_url\nu.startswith('file:') and u.rstrip('/') and u.encode()\n",
    "import numpy as np, pandas as pd\npd.DataFrame({'u': c.file_urls})\nnp.array(c.file_urls)\n",
    "import petastorm\nr = petastorm.make_batch_reader(c.file_urls)\nloads(r)\n",
    "def read_all(x): pass\nread_all(c.file_urls)\n",
    "from petastorm.spark import SparkDatasetConverter\n"
    "SparkDatasetConverter(c.cache_dir_url, c.file_urls, 1)\n",
)
def test_converted_files_in_petastorm_readers_and_logs_do_not_block_migration(text: str) -> None:
    check_rewrite(MADE + text, (MADE + text).replace("petastorm", "mdstorm"))


def test_converted_files_passed_to_function_of_project_do_not_block_migration(
    tmp_path: Path,
) -> None:
    (tmp_path / "ours.py").write_text("def train(urls): ...\n")
    text = f"{MADE}from ours import train\ntrain(c.file_urls)\n"
    check_rewrite(text, text.replace("petastorm", "mdstorm"), str(tmp_path / "a.py"))
