"""Collectives among the chips of one domain: all-reduce kernels of engines, and NCCL's.

An all-reduce takes the fastest of three protocols: everybody reads all (one shot), reduce-scatter and all-gather (two
shots), and the same with a higher rate and a later start. Switches that reduce make eight chips faster than two: the
rate grows by ``eight``, by its root for four. Called eagerly, it takes no less than the host needs to launch it.
"""

import numpy as np

from hardware.kernel_times.form import Constants, Floats, Form, Range, Rates, Shapes, overlapping


def _growth(chips: Floats, constants: Constants) -> Floats:
    return np.asarray(constants["eight"] ** np.where(chips >= 8, 1.0, np.where(chips >= 4, 0.5, 0.0)))


def _all_reduce_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    chips, size, eager = shapes["chips"], shapes["bytes"], shapes["eager"]
    link, growth = rates.link_bytes_per_s, _growth(chips, constants)
    ring = 2.0 * (chips - 1.0) / chips * size
    one = constants["one_s"] + (chips - 1.0) * size / (link * constants["one_share"])
    two = constants["two_s"] + ring / (link * constants["two_share"] * growth)
    large = constants["large_s"] + ring / (link * constants["large_share"] * growth)
    device = np.minimum(np.minimum(one, two), large)
    host = np.broadcast_to(constants["host_s"], np.shape(device))
    return np.asarray(np.where(eager > 0, overlapping(4.0, device, host), device))


def _nccl_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    chips = shapes["chips"]
    sent = shapes["rounds"] * (chips - 1.0) / chips * shapes["bytes"]
    rate = rates.link_bytes_per_s * _growth(chips, constants)
    small, large = (
        sent / (rate * constants["small_share"]),
        constants["large_s"] + sent / (rate * constants["large_share"]),
    )
    return np.asarray(constants["start_s"] + constants["chip_s"] * chips + np.minimum(small, large))


ALL_REDUCE = Form(
    shapes=("chips", "bytes", "eager"),
    constants={
        "host_s": Range(1e-6, 2.5e-5, 6e-5),
        "one_s": Range(1e-6, 4e-6, 6e-5),
        "one_share": Range(0.02, 0.5, 1.0),
        "two_s": Range(1e-6, 8e-6, 1e-4),
        "two_share": Range(0.02, 0.6, 1.0),
        "large_s": Range(1e-6, 2e-5, 3e-4),
        "large_share": Range(0.1, 0.75, 1.0),
        "eight": Range(0.3, 1.0, 4.0),
    },
    seconds=_all_reduce_s,
)

NCCL = Form(
    shapes=("chips", "bytes", "rounds"),
    constants={
        "start_s": Range(1e-6, 8e-6, 5e-5),
        "chip_s": Range(1e-9, 5e-7, 1e-5),
        "small_share": Range(0.02, 0.2, 1.0),
        "large_share": Range(0.1, 0.75, 1.0),
        "large_s": Range(1e-6, 2e-5, 1e-3),
        "eight": Range(0.3, 1.0, 4.0),
    },
    seconds=_nccl_s,
)
