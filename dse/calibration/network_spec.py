"""A spec of a flat network calibrated on a table of measured all-reduces."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dse.calibration.calibration import Calibration, kind_errors, require_enough, require_variety
from dse.calibration.fit import fit_network, fitting_rows, mean_absolute_error
from dse.calibration.rows import ALL_REDUCE, MeasuredAllReduce
from hardware.inputs import fail, validate
from hardware.network import Network
from hardware.network_specs import NetworkSpec, network_spec

_MIN_ROWS, _MIN_SIZES = 6, 3
"""Half of the rows fit three constants, for which they need as many sizes."""


def calibrate_network(spec: str, rows: Sequence[MeasuredAllReduce], measurements: str | Path) -> Calibration:
    """Fit launch, latency and the sustained share of the links to half of ``rows``.

    Raises:
        InputError: a fault in the spec, one of several levels, too few rows, or all-reduces faster than the links.
    """
    flat = network_spec(spec)
    if not isinstance(flat, NetworkSpec):
        names = ", ".join(level.network for level in flat.levels)
        raise fail(spec, "levels", "", f"must be a flat network; calibrate each of its levels: {names}")
    require_enough(rows, ALL_REDUCE, measurements, _MIN_ROWS)
    sizes = len({row.size_bytes for row in fitting_rows(rows)})
    if sizes < _MIN_SIZES:
        rule = f"the fitted half (rows 1, 3, 5, …) needs at least {_MIN_SIZES} different sizes, one for each constant"
        raise fail(measurements, ALL_REDUCE, f"{sizes} {'size' if sizes == 1 else 'sizes'}", rule)
    require_variety(rows, ALL_REDUCE, measurements)
    before = flat.network()
    after = fit_network(before, fitting_rows(rows))
    peak = flat.links.value * flat.link_bytes_per_s.value
    if after.bytes_per_s > peak:
        rule = (
            f"the all-reduces need {after.bytes_per_s:.4g} bytes/s, but the links of {flat.name} provide only "
            f"{peak:.4g}"
        )
        raise fail(measurements, ALL_REDUCE, "", rule)
    source = f"calibrated: launch, latency and efficiency, on half of the {len(rows)} rows of {Path(measurements).name}"
    constants: dict[str, float | bool] = {
        "efficiency": float(f"{after.bytes_per_s / peak:.4g}"),
        "latency_s": float(f"{after.latency_s:.4g}"),
        "launch_s": float(f"{after.launch_s:.4g}"),
        # whole all-reduces were measured, which add while they move
        "additions_included": True,
    }
    document = flat.model_dump(mode="json", exclude_unset=True)
    document |= {key: {"value": value, "source": source} for key, value in constants.items()}
    document |= _transfer(flat, constants["efficiency"] * peak)
    timed = {kind: own for kind, own in (document.pop("collectives", None) or {}).items() if kind != ALL_REDUCE}
    document |= {"collectives": timed} if timed else {}
    validate(NetworkSpec, document, spec)
    errors = kind_errors(ALL_REDUCE, rows, lambda part: _error(before, part), lambda part: _error(after, part))
    return Calibration(document, (errors,))


def _transfer(flat: NetworkSpec, fitted_bytes_per_s: float) -> dict[str, Any]:
    """What one transfer alone reaches, where the fitted rate of all links together is less than was stated of one."""
    alone = flat.transfer_bytes_per_s
    if alone is None or alone.value <= fitted_bytes_per_s:
        return {}
    source = (
        f"the calibrated rate of all links together, which is below the previously stated {alone.value:g}: "
        f"{alone.source}"
    )
    return {"transfer_bytes_per_s": {"value": fitted_bytes_per_s, "source": source}}


def _error(network: Network, rows: Sequence[MeasuredAllReduce]) -> float:
    predicted = [network.collective_s(ALL_REDUCE, row.size_bytes, row.participants) for row in rows]
    return mean_absolute_error(predicted, [row.measured_s for row in rows])
