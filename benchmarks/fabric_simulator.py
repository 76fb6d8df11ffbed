"""The simulator of dataflow fabrics: CPU time of a placement and of a slot, beside its plain form.

Target: at most 20 ms for a placement of about 90 units with a window of 16 samples, and at most 4 µs for a slot, on
``plasticine-8x16``. The placements are random ones that swaps have made more compact, from 0 to 1,000 of them; both
forms must find the same departures. Times are CPU time of this process, the median of several runs, and contain the
check of the placement.
"""

import argparse
import time
from statistics import median

HEAD = ("swaps", "units", "nets", "links", "hops", "slots", "interval", "ms", "us a slot", "plain: ms")
ROW = "{:>6} {:>6} {:>5} {:>6} {:>5} {:>6} {:>9} {:>6} {:>10} {:>10}"
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    import numpy as np

    from dse.fabric.evaluators import reference
    from dse.fabric.evaluators.measure import throughput
    from dse.fabric.evaluators.simulator import Simulator
    from tests.fabric.cases import PLASTICINE, compacted, layered_pipeline

    random = np.random.default_rng(0)
    pipeline = layered_pipeline(random, 2, 5, 6)
    simulator = Simulator(pipeline, PLASTICINE)
    print(ROW.format(*HEAD))
    for swaps in (0, 100, 300, 1000):
        placement = compacted(pipeline, PLASTICINE, random, swaps)
        measured = throughput(simulator, placement)
        departures = measured.outcome.departures
        begun = time.process_time()
        plain = reference.simulate(pipeline, placement, PLASTICINE, len(departures))
        plain_s = time.process_time() - begun
        if plain != measured.outcome:
            raise SystemExit("the two forms of the simulator differ")
        seconds = median_s(lambda placement=placement: throughput(simulator, placement), repeats)
        print(
            ROW.format(
                swaps,
                len(pipeline.units),
                len(pipeline.nets),
                len(set(placement.route_link.tolist())),
                len(placement.route_link),
                departures[-1],
                f"{measured.interval_slots:.1f}",
                f"{1e3 * seconds:.1f}",
                f"{1e6 * seconds / departures[-1]:.2f}",
                f"{1e3 * plain_s:.0f}",
            )
        )
    print(f"Targets: {TARGET_MS:g} ms, {TARGET_US:g} us a slot.")


if __name__ == "__main__":
    main()
