import glob
from petastorm.reader import make_batch_reader as mbr, normalize_dataset_url_or_urls
from petastorm.fs_utils import get_filesystem_and_path_or_paths, normalize_dir_url


def main(spark, directory):
    spark.range(0, 12, 1, 3).selectExpr("id", "id % 2 as day").write.partitionBy("day").parquet(directory + "/t")
    urls = ["file://" + f for f in sorted(glob.glob(directory + "/t/*/*.parquet"))]
    with mbr(normalize_dataset_url_or_urls(urls), shuffle_row_groups=False) as r:
        by_files = sorted(int(i) for b in r for i in b.id)
    with mbr("file://" + directory + "/t", filters=[("day", "=", 1)], num_epochs=1) as r:
        filtered = sorted(int(i) for b in r for i in b.id)
    fs, path = get_filesystem_and_path_or_paths("file://" + directory + "/t/")
    return {"files": by_files, "filtered": filtered, "url": normalize_dir_url("file:///a/"), "path": path == directory + "/t"}
