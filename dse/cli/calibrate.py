"""``dse calibrate``: the constants of an accelerator fitted to measured kernels."""

from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_table, print_text
from hardware.inputs import fail

_EXAMPLES = (
    "dse calibrate a100-sxm tests/data/measured/a100_fp16_kernels.csv",
    "dse calibrate nvlink3 links.csv --out my-network.yaml",
    "dse calibrate h100-sxm mine.csv --stack generic --out my-stack.yaml",
)


@click.command("calibrate", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("spec", metavar="SPEC")
@click.argument("measurements", type=click.Path(path_type=Path), metavar="[MEASUREMENTS.csv]", required=False)
@click.option("--trace", "profiles", multiple=True, metavar="FILE", help="Fit to a profile instead; one per rank.")
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
    stack: str | None,
    precision: str | None,
    out: Path | None,
) -> None:
    """Fit constants to your measurements, and print the errors before and after.

    SPEC is an accelerator (a name from `dse specs`, or your own YAML file); a network, if all rows are all-reduces; or,
    with --stack, a chip of `dse plan`. MEASUREMENTS.csv has the columns op, m, n, k and measured_s. Half of the rows of
    each kind of work are used for the fit, and the others are held out (docs/guides/calibrate.md). With --trace, matrix
    products of a profiled run are the rows, one for each shape.
    """
    from dse.calibration.calibrate import calibrate, calibrate_on_profiles, write_calibration

    if (measurements is None) == (not profiles):
        raise fail("dse calibrate", "--trace", "", "either MEASUREMENTS.csv or --trace FILE must be given")
    if measurements is None and precision is not None:
        raise fail("dse calibrate", "--precision", precision, "must not be given with --trace, which states it")
    calibration = (
        calibrate_on_profiles(spec, profiles, stack)
        if measurements is None
        else calibrate(spec, measurements, stack, precision)
    )
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
