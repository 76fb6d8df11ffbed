"""Machines for tests: any sizes, tiny buffers included, under the rules of a named cost model."""

import numpy as np

from hardware.cost_model import cost_model
from hardware.machines import Machines


def small_machine(
    cores=2,
    width=2,
    depth=2,
    vector_cores=2,
    lanes=2,
    l2_bytes=64,
    buffer_bytes=512,
    clock_hz=1e9,
    hbm_bytes_per_s=16e9,
    buffer_words_per_cycle=16.0,
    model="consistent",
    **rules,
):
    """One machine; ``rules`` replace fields of the cost model's hardware section."""
    return Machines(
        tensor_cores=np.array([cores]),
        core_width=np.array([width]),
        core_depth=np.array([depth]),
        vector_cores=np.array([vector_cores]),
        vector_lanes=np.array([lanes]),
        tensor_l2_bytes=np.array([l2_bytes]),
        vector_l2_bytes=np.array([l2_bytes]),
        global_buffer_bytes=np.array([buffer_bytes]),
        area_mm2=np.array([1.0]),
        clock_hz=clock_hz,
        hbm_bytes_per_s=hbm_bytes_per_s,
        global_buffer_words_per_cycle=buffer_words_per_cycle,
        element_bytes=2,
        rules=cost_model(model).hardware.model_copy(update=rules),
    )
