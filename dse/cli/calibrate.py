"""``dse calibrate``: the constants of an accelerator fitted to measured kernels."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_table, print_text
from hardware.inputs import fail

if TYPE_CHECKING:
    from dse.calibration.calibration import Calibration

_EXAMPLES = (
    "dse calibrate a100-sxm tests/data/measured/a100_fp16_kernels.csv",
    "dse calibrate nvlink3 links.csv --out my-network.yaml",
    "dse calibrate vllm --serving runs.csv --out my-engine.yaml",
)


@click.command("calibrate", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("spec", metavar="SPEC")
@click.argument("measurements", type=click.Path(path_type=Path), metavar="[MEASUREMENTS.csv]", required=False)
@click.option("--trace", "profiles", multiple=True, metavar="FILE", help="Fit to a profile instead; one per rank.")
@click.option(
    "--serving",
    type=click.Path(path_type=Path),
    metavar="ROWS.csv",
    help="Fit the inference engine SPEC to measured serving runs.",
)
@click.option(
    "--stack",
    metavar="SPEC",
    help="Fit the sustained shares of this software stack to measurements on the chip SPEC.",
)
@click.option(
    "--precision", metavar="FORMAT", help="Precision of the measured GEMMs (default: bf16); requires --stack."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the calibrated spec to this YAML file."
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(
    spec: str,
    measurements: Path | None,
    profiles: tuple[str, ...],
    serving: Path | None,
    stack: str | None,
    precision: str | None,
    out: Path | None,
) -> None:
    """Fit constants to your measurements, and print the errors before and after.

    SPEC is an accelerator (a name from `dse specs`, or your own YAML file); a network, if all rows are all-reduces;
    with --stack, a chip of `dse plan`; or, with --serving, an engine of `dse serve`. MEASUREMENTS.csv has the columns
    op, m, n, k and measured_s. Half of the rows of each kind of work are used for the fit, and the others are held out
    (docs/guides/calibrate.md). With --trace, matrix products of a profiled run are the rows, one for each shape.
    """
    from dse.calibration.calibrate import write_calibration

    calibration = _calibrated(spec, measurements, profiles, serving, stack, precision)
    print_text(calibration.verdict)
    print_table(
        ("kind of work", "rows", "fitted half: before %", "after %", "held-out half: before %", "after %"),
        [
            (
                each.kind,
                str(each.rows),
                *(
                    f"{100 * error:.1f}"
                    for error in (each.fitted_before, each.fitted_after, each.held_out_before, each.held_out_after)
                ),
            )
            for each in calibration.errors
        ],
        calibration.measure,
    )
    if worse := [each.kind for each in calibration.errors if each.held_out_after > each.held_out_before]:
        print_text(f"{', '.join(worse)}: the error on the held-out half has increased; check these rows")
    if out is not None:
        written = write_calibration(calibration, out)
        print_text(f"calibrated spec: {', '.join(map(str, reversed(written)))}")


def _calibrated(
    spec: str,
    measurements: Path | None,
    profiles: tuple[str, ...],
    serving: Path | None,
    stack: str | None,
    precision: str | None,
) -> "Calibration":
    from dse.calibration.calibrate import calibrate, calibrate_on_profiles
    from dse.calibration.engine_spec import calibrate_engine

    given = [measurements is not None, bool(profiles), serving is not None]
    if sum(given) != 1:
        rule = "one of MEASUREMENTS.csv, --trace FILE and --serving ROWS.csv must be given"
        raise fail("dse calibrate", "--trace", "", rule)
    if measurements is not None:
        return calibrate(spec, measurements, stack, precision)
    if precision is not None:
        other = "--trace" if profiles else "--serving"
        raise fail("dse calibrate", "--precision", precision, f"must not be given with {other}, which states it")
    if serving is None:
        return calibrate_on_profiles(spec, profiles, stack)
    if stack is not None:
        raise fail("dse calibrate", "--stack", stack, "must not be given with --serving, which fits an engine")
    return calibrate_engine(spec, serving)
