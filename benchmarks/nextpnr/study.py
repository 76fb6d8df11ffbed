"""The tables of the benchmark."""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.nextpnr.methods import Method, held_out, periods
from benchmarks.nextpnr.samples import samples_of
from benchmarks.nextpnr.scores import Floats, error_ratio, resampled, scores
from benchmarks.nextpnr.table import Run

ESTIMATE = "tool's estimate"
ALONE, WITH_ESTIMATE = "paths", "paths and estimate, fitted"
"""The methods that the targets are asked of, chosen before the table was looked at."""
MIN_CORRELATION, MAX_ERROR_RATIO = 0.9, 0.9
HEAD = ("families left out", "rho", "in families", "error, %", "bias, %", "error / tool's", "CPU, s")
ROW = "{:<28} {:>20} {:>12} {:>18} {:>8} {:>18} {:>7}"


def study(runs: Sequence[Run], methods: Mapping[str, Method]) -> int:
    """Prints both tables, with a row for each method; returns 1 where a target is missed, else 0."""
    samples = samples_of(runs)
    routed, families = 1e3 / periods(samples), np.array([run.family for run in runs])
    draws = resampled([run.design for run in runs])
    cells = [len(run.netlist.kinds) for run in runs]
    print(
        f"{len(runs)} runs of {len({run.design for run in runs})} designs of {len(set(families))} families, "
        f"{min(cells)} to {max(cells)} cells, {routed.min():.0f} to {routed.max():.0f} MHz; "
        "90 % intervals over designs\n"
    )
    print(ROW.format(*HEAD))
    estimated = np.array([run.clock.estimated_mhz for run in runs])
    predictions, results = {}, {}
    for name, method in methods.items():
        begun = time.process_time()
        predictions[name] = 1e3 / held_out(method, samples)
        seconds = time.process_time() - begun
        result = scores(predictions[name], routed, families, draws)
        ratio = error_ratio(predictions[name], estimated, routed, draws)
        results[name] = (result.correlation.value, ratio.value)
        print(
            ROW.format(
                name,
                result.correlation.shown(),
                f"{result.within_families:.3f}",
                result.error.shown(100, 1),
                f"{100 * result.bias:+.1f}",
                ratio.shown(1, 2),
                f"{seconds:.1f}",
            ),
            flush=True,
        )
    _print_families(predictions, routed, families)
    correlation, _ = results[ALONE]
    ratio_with = results[WITH_ESTIMATE][1]
    targets = (
        (f"{ALONE}: rho {correlation:.3f}, at least {MIN_CORRELATION}", correlation >= MIN_CORRELATION),
        (
            f"{WITH_ESTIMATE}: error {ratio_with:.2f} of the tool's, at most {MAX_ERROR_RATIO}",
            ratio_with <= MAX_ERROR_RATIO,
        ),
    )
    print()
    for text, is_met in targets:
        print(f"{text}: {'met' if is_met else 'MISSED'}")
    return 0 if all(is_met for _, is_met in targets) else 1


def _print_families(predictions: Mapping[str, Floats], routed: Floats, families: Floats) -> None:
    """Error and bias of each method in each family."""
    names = sorted(set(families.tolist()))
    row = "{:<28}" + " {:>12}" * len(names)
    print("\nerror and bias, %\n" + row.format("", *names))
    for method, predicted in predictions.items():
        deviation = 100 * (predicted / routed - 1)
        of_family = [deviation[families == name] for name in names]
        print(row.format(method, *(f"{np.abs(each).mean():.1f} {each.mean():+.1f}" for each in of_family)))
