"""Write Parquet files with encrypted columns, as Spark and pyarrow do."""

import base64
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption


class _Keys(encryption.KmsClient):  # type: ignore[misc]  # pyarrow has no annotations
    """A key server in memory, which does not protect the keys."""

    def wrap_key(self, key_bytes: bytes, _master_key: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _master_key: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(
    path: Path,
    table: pa.Table,
    columns: Sequence[str],
    *,
    plaintext_footer: bool = True,
    row_group_size: int | None = None,
) -> None:
    """Write a file in which some columns are encrypted, by default not the footer."""
    configuration = encryption.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"column": list(columns)},
        plaintext_footer=plaintext_footer,
        double_wrapping=False,
    )
    properties = encryption.CryptoFactory(lambda _: _Keys()).file_encryption_properties(
        encryption.KmsConnectionConfig(), configuration
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table, row_group_size=row_group_size)
