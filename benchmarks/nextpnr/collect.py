"""Collection of runs: resumable, several processes at a time, and independent of their number and order."""

import gzip
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from benchmarks.nextpnr.design import Design
from benchmarks.nextpnr.netlist import read_placed
from benchmarks.nextpnr.table import Run
from benchmarks.nextpnr.timing_report import read_clock
from benchmarks.nextpnr.tools import DEVICE, RoutedDesign, ToolError, place_and_route, synthesise, versions


def provenance() -> dict[str, str]:
    """What a table of runs comes from: versions of the tools, the device and its options.

    Raises
    ------
    ToolError
        A tool is not installed.
    """
    return {**versions(), "device": " ".join(DEVICE)}


def collect(designs: Sequence[Design], seeds: Sequence[int], store: Path, workers: int) -> Iterator[Run | str]:
    """Yields a run for each design and seed, or the reason, one line, why there is none, as they are ready.

    Finished runs lie in ``store``, one file each, and are read from there the next time. A file's name has a digest of
    the Verilog text and of the tools' versions, so a changed generator or tool starts over.
    """
    store.mkdir(parents=True, exist_ok=True)
    origin = json.dumps(provenance(), sort_keys=True)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        pending = [pool.submit(_runs_of, design, tuple(seeds), store, origin) for design in designs]
        for finished in as_completed(pending):
            yield from finished.result()


def _runs_of(design: Design, seeds: tuple[int, ...], store: Path, origin: str) -> list[Run | str]:
    """All seeds of a design, which share one synthesis. The tools are processes, so a thread is enough to wait."""
    digest = hashlib.sha256(f"{origin}\n{design.verilog}".encode()).hexdigest()[:12]
    paths = {seed: store / f"{design.name}-{seed}-{digest}.json.gz" for seed in seeds}
    missing = [seed for seed, path in paths.items() if not path.exists()]
    if missing:
        folder = Path(tempfile.mkdtemp(dir=store))
        try:
            netlist = synthesise(design.verilog, folder)
            for seed in missing:
                _store(paths[seed], place_and_route(netlist, seed))
        except ToolError as error:
            return [f"{design.name}: {error}"]
        finally:
            shutil.rmtree(folder)
    return [_read(design, seed, path) for seed, path in paths.items()]


def _store(path: Path, routed: RoutedDesign) -> None:
    """Writes a whole file or none."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(gzip.compress(json.dumps(asdict(routed)).encode()))
    partial.replace(path)


def _read(design: Design, seed: int, path: Path) -> Run:
    routed = RoutedDesign(**json.loads(gzip.decompress(path.read_bytes())))
    netlist, positions = read_placed(routed.netlist)
    return Run(design.family, design.name, seed, netlist, positions, read_clock(routed.log, routed.report, netlist))
