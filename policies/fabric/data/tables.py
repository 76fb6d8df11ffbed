"""Samples as Parquet: a table of graphs, a table of placements, and in the metadata of both how they came about."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dse.run.tables import write_table
from hardware.inputs import fail, shown
from policies.fabric.data.records import GraphRecord, Sample, Samples

GRAPHS_FILE, SAMPLES_FILE = "graphs.parquet", "samples.parquet"

SCHEMA = "dse.fabric-samples/1"

_METADATA = b"provenance"


def write_samples(folder: Path, samples: Samples, compression: str = "snappy") -> None:
    """Write both tables into ``folder``, which is made, in one of the compressions of Parquet."""
    graphs = [samples.graphs[number].document() for number in sorted(samples.graphs)]
    rows = [{**sample.document(), "placer": json.dumps(sample.placer)} for sample in samples.samples]
    for name, documents in ((GRAPHS_FILE, graphs), (SAMPLES_FILE, rows)):
        write_table(folder / name, _table(documents, samples.provenance), compression)


def _table(documents: Sequence[dict[str, Any]], provenance: Any) -> Any:
    metadata = {_METADATA: json.dumps({"schema": SCHEMA, **provenance})}
    return pa.Table.from_pylist(list(documents)).replace_schema_metadata(metadata)


def read_samples(folder: Path) -> Samples:
    """The samples that :func:`write_samples` wrote.

    Raises:
        InputError: a table is missing, is damaged, or has another schema.
    """
    graphs, provenance = _read(folder / GRAPHS_FILE)
    rows, _ = _read(folder / SAMPLES_FILE)
    try:
        records = {row["number"]: GraphRecord.from_document(row) for row in graphs}
        samples = tuple(Sample.from_document({**row, "placer": json.loads(row["placer"])}) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise fail(folder, "", "", f"contains no valid samples: {type(error).__name__}: {shown(str(error))}") from error
    return Samples(records, samples, provenance)


def samples_digest(folder: Path) -> str:
    """The SHA-256 of both tables in ``folder``, which are the same bytes for the same samples.

    Raises:
        InputError: a table is missing.
    """
    content = hashlib.sha256()
    for name in (GRAPHS_FILE, SAMPLES_FILE):
        _require_file(folder / name)
        content.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return content.hexdigest()


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise fail(path, "", "", "no such table; collect samples with dse fabric train first")


def _read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and provenance of a table."""
    _require_file(path)
    try:
        table = pq.read_table(path.absolute())
    except (OSError, ValueError) as error:  # what pyarrow raises over a damaged file
        raise fail(path, "", "", f"is not a complete Parquet table: {shown(str(error))}") from error
    provenance = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    schema = provenance.pop("schema", None)
    if schema != SCHEMA:
        raise fail(path, "schema", shown(str(schema)), f"must be {SCHEMA}")
    return table.to_pylist(), provenance
