"""Tables of a run: columns of numbers and words, in memory while a run lives, as Parquet files in its directory."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hardware.inputs import fail, shown

FOLDER = "tables"


class Tables(Mapping[str, pa.Table]):
    """Tables by name. What a run puts here, its report reads.

    Attributes:
        missing: the files of those that were looked up and are not there.

    Args:
        directory: the run directory whose tables are read where none was put by that name; None where there is none.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.missing: set[Path] = set()
        self._directory = directory
        self._tables: dict[str, pa.Table] = {}

    def put(self, name: str, content: pa.Table) -> None:
        """Add a table."""
        self._tables[name] = content

    def write(self, directory: Path) -> None:
        """Write every table that was put here, each whole or not at all."""
        for name, content in self._tables.items():
            write_table(directory / FOLDER / f"{name}.parquet", content)

    def __getitem__(self, name: str) -> pa.Table:
        if name in self._tables:
            return self._tables[name]
        path = None if self._directory is None else self._directory / FOLDER / f"{name}.parquet"
        if path is None:
            raise KeyError(name)
        if not path.exists():
            self.missing.add(path)
            raise KeyError(name)
        try:
            return pq.read_table(path.absolute())  # pyarrow takes s3:… for a bucket
        except (OSError, ValueError) as error:  # what pyarrow raises over a damaged file
            raise fail(path, "", "", f"is not a complete Parquet table: {shown(str(error))}") from error

    def __iter__(self) -> Iterator[str]:
        there = () if self._directory is None else sorted((self._directory / FOLDER).glob("*.parquet"))
        return iter(dict.fromkeys([*self._tables, *(path.stem for path in there)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def write_table(path: Path, content: pa.Table, compression: str = "snappy") -> None:
    """Write a Parquet file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    pq.write_table(content, temporary.absolute(), compression=compression)  # pyarrow takes s3:… for a bucket
    temporary.replace(path)
