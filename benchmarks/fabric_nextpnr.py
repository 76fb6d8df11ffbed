"""The outside check of the learned cost model of fabrics: a public place-and-route tool instead of the simulator.

100 generated designs of ten families, each placed and routed with four seeds by nextpnr for an iCE40 HX8K. From the
placed netlist, models predict the clock rate after routing, for families that they have not learned from. Targets: rank
correlation of at least 0.9 from the netlist alone; with the tool's own estimate before routing as an input, an error at
least 10 % below that estimate's.

The collected runs lie in ``benchmarks/data/nextpnr``. ``--collect FOLDER`` collects them again, which takes about half
an hour on two idle cores, keeps finished runs in FOLDER, and needs the extra ``nextpnr``.
"""

import argparse
import sys
from pathlib import Path

from benchmarks import DATA

TABLE = DATA / "nextpnr"
SEEDS = (1, 2, 3, 4)


def collect_table(store: Path, table: Path, workers: int) -> None:
    """Collects all runs and writes the table; ends with an error where a run is missing."""
    from benchmarks.nextpnr.collect import collect, provenance
    from benchmarks.nextpnr.families import designs, designs_sha256
    from benchmarks.nextpnr.table import Run, write_runs
    from benchmarks.nextpnr.tools import ToolError

    runs, failures = [], []
    try:
        origin = provenance()
        for run in collect(designs(), SEEDS, store, workers):
            (runs if isinstance(run, Run) else failures).append(run)
            print(f"\r{len(runs)} runs, {len(failures)} designs have failed", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    except ToolError as error:
        sys.exit(str(error))
    if failures:
        sys.exit("\n".join(failures))
    write_runs(table, runs, {**origin, "designs_sha256": designs_sha256()})


def main() -> int:
    """Prints a table with a row for each method, and one with the errors by family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", type=Path, metavar="FOLDER", help="collect the runs first; finished ones lie here")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FOLDER", help="where the collected runs lie")
    parser.add_argument("--workers", type=int, default=2, help="processes that collect")
    parser.add_argument(
        "--network", type=int, metavar="EPOCHS", help="also train the network of policies.fabric (slow)"
    )
    arguments = parser.parse_args()
    if arguments.collect is not None:
        collect_table(arguments.collect, arguments.table, arguments.workers)

    from benchmarks.nextpnr.methods import METHODS
    from benchmarks.nextpnr.study import study
    from benchmarks.nextpnr.table import read_runs

    runs, origin = read_runs(arguments.table)
    print(", ".join(f"{key} {value}" for key, value in sorted(origin.items())))
    methods = dict(METHODS)
    if arguments.network is not None:
        from benchmarks.nextpnr.learned import learned_methods

        methods |= learned_methods(arguments.network)
    return study(runs, methods)


if __name__ == "__main__":
    sys.exit(main())
