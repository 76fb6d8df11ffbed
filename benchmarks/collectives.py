"""Collectives over NVLink5 next to those that SimuMax timed on one server of eight B200.

Sizes are those of a rank: powers of two from 1 MiB to 1 GiB among eight ranks, 32 MiB among two and four. An all-to-all
has one part here that no byte takes, regardless of the ranks; the source has one for each number of ranks.
"""

from benchmarks.recording import Record, Results, parser_of
from hardware.network_specs import network
from tests.hardware.test_network import SIMUMAX, simumax_s

RECORD = Record(
    "collectives",
    ("within", "all_to_all", "measured", "ours"),
    {"main": ("collective", "ranks", "sizes", "largest error")},
)
SIZES = {8: [2**power for power in range(20, 31)], 4: [2**25], 2: [2**25]}


def main() -> None:
    """One line for each collective and number of ranks."""
    arguments, results, net = parser_of(__doc__).parse_args(), Results(RECORD), network("nvlink5")
    worst: dict[bool, float] = {False: 0.0, True: 0.0}
    for kind in SIMUMAX:
        for ranks, sizes in SIZES.items():
            whole = ranks if kind == "all_to_all" else 1
            ratios = [net.collective_s(kind, whole * size, ranks) / simumax_s(kind, size, ranks) for size in sizes]
            error = max((each - 1 for each in ratios), key=abs)
            is_flat = kind == "all_to_all" and ranks < 8
            worst[is_flat] = max(worst[is_flat], abs(error))
            results.row("main", kind.replace("_", "-"), ranks, len(sizes), f"{100 * error:+.1f} %".replace("-", "−"))
    results.figure("within", f"{100 * worst[False]:.1f} %")
    results.figure("all_to_all", f"{100 * worst[True]:.0f} %")
    flat = [f"{1e6 * simumax_s('all_to_all', 0, ranks):.0f}" for ranks in sorted(SIZES)]
    results.figure("measured", f"{flat[0]}, {flat[1]} and {flat[2]} µs")
    results.figure("ours", f"{1e6 * net.collective_s('all_to_all', 1, 8):.0f} µs")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
