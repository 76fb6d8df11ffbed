"""The collected runs as two Parquet files: one row for each design's netlist, and one for each run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nextpnr.netlist import Netlist, Positions
from benchmarks.nextpnr.timing_report import Clock, Step

NETLISTS, RUNS = "netlists.parquet", "runs.parquet"
NETLIST_SCHEMA = pa.schema(
    [
        ("design", pa.string()),
        ("family", pa.string()),
        ("kinds", pa.list_(pa.uint8())),
        ("used_inputs", pa.list_(pa.uint8())),
        ("sources", pa.list_(pa.int16())),
        ("source_ports", pa.list_(pa.uint8())),
        ("sinks", pa.list_(pa.int16())),
        ("sink_ports", pa.list_(pa.uint8())),
    ]
)
RUN_SCHEMA = pa.schema(
    [
        ("design", pa.string()),
        ("seed", pa.int32()),
        ("estimated_mhz", pa.float64()),
        ("routed_mhz", pa.float64()),
        ("launch_ps", pa.float64()),
        ("path_connections", pa.list_(pa.int32())),
        ("path_routing_ps", pa.list_(pa.float32())),
        ("path_logic_ps", pa.list_(pa.float32())),
        ("x", pa.list_(pa.uint8())),
        ("y", pa.list_(pa.uint8())),
    ]
)


@dataclass(frozen=True)
class Run:
    """One design, placed and routed with one seed. Cells have no names where a run comes from a table."""

    family: str
    design: str
    seed: int
    netlist: Netlist
    positions: Positions
    clock: Clock


def write_runs(folder: Path, runs: Iterable[Run], provenance: Mapping[str, str]) -> None:
    """Writes both files, ordered by design and seed.

    Raises
    ------
    ValueError
        Two runs of one design have different netlists.
    """
    ordered = sorted(runs, key=lambda run: (run.family, run.design, run.seed))
    netlists: dict[str, Run] = {}
    for run in ordered:
        first = netlists.setdefault(run.design, run)
        if _netlist_row(first) != _netlist_row(run):
            raise ValueError(f"{run.design}: all seeds must have one netlist, but seed {run.seed} has another")
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema, rows in (
        (NETLISTS, NETLIST_SCHEMA, [_netlist_row(run) for run in netlists.values()]),
        (RUNS, RUN_SCHEMA, [_run_row(run) for run in ordered]),
    ):
        table = pa.Table.from_pylist(rows, schema.with_metadata(dict(provenance)))
        pq.write_table(table, folder / name, compression="zstd", compression_level=19)


def read_runs(folder: Path) -> tuple[list[Run], dict[str, str]]:
    """All runs of a folder, and their provenance."""
    table = pq.read_table(folder / NETLISTS)
    netlists = {row["design"]: (row["family"], _netlist(row)) for row in table.to_pylist()}
    runs = []
    for row in pq.read_table(folder / RUNS).to_pylist():
        family, netlist = netlists[row["design"]]
        positions = Positions(np.array(row["x"], dtype=np.int16), np.array(row["y"], dtype=np.int16))
        columns = (row["path_connections"], row["path_routing_ps"], row["path_logic_ps"])
        steps = tuple(Step(*step) for step in zip(*columns, strict=True))
        clock = Clock(row["estimated_mhz"], row["routed_mhz"], row["launch_ps"], steps)
        runs.append(Run(family, row["design"], row["seed"], netlist, positions, clock))
    metadata = table.schema.metadata or {}
    return runs, {key.decode(): value.decode() for key, value in metadata.items() if not key.startswith(b"ARROW")}


def _netlist_row(run: Run) -> dict[str, object]:
    netlist = run.netlist
    arrays = {field.name: getattr(netlist, field.name).tolist() for field in NETLIST_SCHEMA if field.name in ARRAYS}
    return {"design": run.design, "family": run.family, **arrays}


ARRAYS = frozenset({"kinds", "used_inputs", "sources", "source_ports", "sinks", "sink_ports"})


def _run_row(run: Run) -> dict[str, object]:
    clock = run.clock
    return {
        "design": run.design,
        "seed": run.seed,
        "estimated_mhz": clock.estimated_mhz,
        "routed_mhz": clock.routed_mhz,
        "launch_ps": clock.launch_ps,
        "path_connections": [step.connection for step in clock.steps],
        "path_routing_ps": [step.routing_ps for step in clock.steps],
        "path_logic_ps": [step.logic_ps for step in clock.steps],
        "x": run.positions.x.tolist(),
        "y": run.positions.y.tolist(),
    }


def _netlist(row: Mapping[str, list[int]]) -> Netlist:
    cells = tuple("" for _ in row["kinds"])
    bytes_ = {name: np.array(row[name], dtype=np.uint8) for name in ("kinds", "used_inputs")}
    ends = {name: np.array(row[name], dtype=np.int32) for name in ("sources", "sinks")}
    ports = {name: np.array(row[name], dtype=np.uint8) for name in ("source_ports", "sink_ports")}
    return Netlist(cells, **bytes_, **ends, **ports)
