"""The simulator of dataflow fabrics: CPU time of a placement and of a slot, next to its plain form.

Target: at most 20 ms for a placement of about 90 units with a window of 16 samples, and at most 4 µs for a slot, on
``plasticine-8x16``. The placements are random ones that swaps have made more compact, from 0 to 1,000 of them; both
forms must find the same departures. Times are CPU time of this process, the median of several runs, and contain the
check of the placement.
"""

import time
from statistics import median

from benchmarks.recording import Record, Results, parser_of

COLUMNS = ("swaps", "units", "nets", "links", "hops", "slots", "interval", "ms", "µs per slot", "plain form, ms")
RECORD = Record("fabric_simulator", ("slot", "placement", "faster"), {"main": COLUMNS})
TARGET_MS, TARGET_US = 20.0, 4.0


def median_s(function, repeats: int) -> float:
    """CPU seconds of a call, the median of several."""
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        seconds.append(time.process_time() - begun)
    return median(seconds)


def main() -> None:
    """One line for each placement."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    import numpy as np

    from dse.fabric.evaluators import reference
    from dse.fabric.evaluators.measure import throughput
    from dse.fabric.evaluators.simulator import Simulator
    from tests.fabric.cases import PLASTICINE, compacted, layered_pipeline

    random = np.random.default_rng(0)
    pipeline = layered_pipeline(random, 2, 5, 6)
    simulator = Simulator(pipeline, PLASTICINE)
    placement_s, slot_s, faster = [], [], []
    for swaps in (0, 100, 300, 1000):
        placement = compacted(pipeline, PLASTICINE, random, swaps)
        measured = throughput(simulator, placement)
        departures = measured.outcome.departures
        begun = time.process_time()
        plain = reference.simulate(pipeline, placement, PLASTICINE, len(departures))
        plain_s = time.process_time() - begun
        if plain != measured.outcome:
            raise SystemExit("the two forms of the simulator differ")
        seconds = median_s(lambda placement=placement: throughput(simulator, placement), arguments.repeats)
        counts = len(pipeline.units), len(pipeline.nets), len(set(placement.route_link.tolist()))
        slots, interval = (len(placement.route_link), departures[-1]), f"{measured.interval_slots:.1f}"
        placement_s.append(seconds)
        slot_s.append(seconds / departures[-1])
        faster.append(plain_s / seconds)
        times = f"{1e3 * seconds:.1f}", f"{1e6 * slot_s[-1]:.2f}", f"{1e3 * plain_s:.0f}"
        results.row("main", swaps, *counts, *slots, interval, *times)
    results.figure("slot", f"{1e6 * min(slot_s):.1f} to {1e6 * max(slot_s):.1f} µs")
    results.figure("placement", f"{1e3 * min(placement_s):.1f} to {1e3 * max(placement_s):.1f} ms")
    results.figure("faster", f"{min(faster):.0f} to {max(faster):.0f} times")
    print(f"Targets: {TARGET_MS:g} ms, {TARGET_US:g} µs per slot.")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
