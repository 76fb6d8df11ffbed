"""Tables of a run as Parquet files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_table(path: Path, content: pa.Table) -> None:
    """Write a Parquet file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    pq.write_table(content, temporary)
    temporary.replace(path)
