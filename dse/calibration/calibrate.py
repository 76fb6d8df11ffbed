"""``dse calibrate``: an accelerator, a network or a software stack, by what is named and by the rows of the table."""

from pathlib import Path

from dse.calibration.calibration import Calibration
from dse.calibration.network_spec import calibrate_network
from dse.calibration.rows import MeasuredAllReduce, read_rows
from dse.calibration.spec import calibrate_accelerator
from dse.calibration.stack_spec import calibrate_stack


def calibrate(spec: str, measurements: str | Path, stack: str | None = None, precision: str = "bf16") -> Calibration:
    """Fit constants to half of the rows of each kind, and state the errors on the others.

    Args:
        spec: an accelerator; a flat network where all rows are all-reduces; the chip that was measured, with ``stack``.
        measurements: a CSV file (:func:`dse.calibration.rows.read_rows`).
        stack: the stack whose sustained shares are fitted; None where ``spec`` itself is calibrated.
        precision: of the GEMMs, with ``stack``.

    Raises:
        InputError: a fault in a file, or rows that cannot calibrate what is named.
    """
    rows = read_rows(measurements)
    if stack is not None:
        return calibrate_stack(stack, spec, precision, rows, measurements)
    all_reduces = [row for row in rows if isinstance(row, MeasuredAllReduce)]
    if len(all_reduces) == len(rows):
        return calibrate_network(spec, all_reduces, measurements)
    return calibrate_accelerator(spec, rows, measurements)
