"""Measure how fast samples are read, compared with MosaicML Streaming and the targets.

    python benchmarks/run_samples.py [--rounds 2]

Both libraries run the same program over the same files, written by MosaicML Streaming, and the same
S3 server on this machine. Writes `results_samples.json` next to this file, or `--output`. Exit code
1 if a target is missed.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from comparison import HERE, INTERPRETERS, Target, compare, measure, prepared
from measuring import with_version
from sizes import size

BUCKET = "benchmark"
LIBRARIES = ("mdstorm", "mosaic")


def against_mosaic(
    name: str, figure: str, promised: float | None, theirs: str | None = None
) -> Target:
    """Return a target that compares a figure with Mosaic's, which may have a different name."""
    return Target(name, f"mdstorm.{figure}", f"mosaic.{theirs or figure}", promised)


TARGETS = (
    against_mosaic("20,000 samples of 3 KB bytes", "blobs", 20),
    against_mosaic("ragged float32 arrays of 200 elements", "ragged", 20),
    against_mosaic("10 columns of 20 characters, to Arrow", "texts", 100),
    against_mosaic(f"JPEGs of 224 by 224 to arrays, {with_version('Pillow')}", "images", 1.3),
    against_mosaic(
        f"JPEGs of 224 by 224 to arrays, {with_version('simplejpeg')}, or "
        f"{with_version('Pillow')} in MosaicML Streaming",
        "images_turbo",
        2,
        "images",
    ),
    against_mosaic("dataset[i] of 3 KB bytes", "lookup_blobs", 5),
    against_mosaic("dataset[i] of 26 numbers", "lookup_numbers", 5),
    against_mosaic("first batch of 10,000 shards", "first_batch_s", 5),
    against_mosaic("one epoch from S3, cache empty", "s3.cold_s", 1),
    against_mosaic("the same epoch again, from the cache", "s3.warm_s", 20),
)


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Serve the files in a folder; yield the environment variables that both libraries need."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # do not log every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        environment = {
            "AWS_ACCESS_KEY_ID": "benchmark",
            "AWS_SECRET_ACCESS_KEY": "benchmark",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
            "S3_ENDPOINT_URL": endpoint,
        }
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="benchmark",
            aws_secret_access_key="benchmark",
        )
        client.create_bucket(Bucket=BUCKET)
        for file in folder.iterdir():
            client.upload_file(str(file), BUCKET, f"{folder.name}/{file.name}")
        yield environment
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=size(2, 1))
    parser.add_argument("--output", type=Path, default=HERE / "results_samples.json")
    options = parser.parse_args()

    libraries = prepared(LIBRARIES, "mosaic")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([INTERPRETERS[libraries[-1]], HERE / "samples.py", name], check=True)
        url = f"s3://{BUCKET}/stored"
        rounds = []
        with s3_server(folder / "stored") as environment:
            for number in range(1, options.rounds + 1):
                one = {}
                for library in libraries:
                    print(f"round {number} of {options.rounds}: {library}", file=sys.stderr)
                    one[library] = measure(
                        library, "measure_samples.py", library, name, url, **environment
                    )
                rounds.append(one)
    return 0 if compare(rounds, TARGETS, options.output) else 1


if __name__ == "__main__":
    sys.exit(main())
