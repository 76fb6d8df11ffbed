"""Machines for tests: any sizes, tiny buffers included, under the rules of a named cost model."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hardware.cost_model import cost_model
from hardware.machines import Machines
from hardware.operations import Gemm
from hardware.spec_fields import Count

_ONE_CORE = {"batch": 1, "cores": 1, "sides": (1, 1), "l2_bytes": 48, "buffer_bytes": 96, "buffer_rate": 0.5}
_SLOW_MEMORY = {"hbm": 1e9, "model": "consistent"}

LESS_OF_THE_STREAM = (
    {"sizes": (3, 5, 4), **_ONE_CORE, **_SLOW_MEMORY},
    {"sizes": (3, 4, 5), **_ONE_CORE, **_SLOW_MEMORY},
    {"sizes": (4, 5, 3), **_ONE_CORE, **_SLOW_MEMORY},
    {
        "sizes": (7, 4, 7),
        **_ONE_CORE,
        "batch": 3,
        "l2_bytes": 68,
        "buffer_bytes": 94,
        "hbm": 8e9,
        "model": "phaze-2024",
    },
    {
        "sizes": (6, 7, 7),
        "batch": 3,
        "cores": 3,
        "sides": (1, 1),
        "l2_bytes": 43,
        "buffer_bytes": 128,
        "buffer_rate": 2.0,
        "hbm": 64e9,
        "model": "phaze-2024",
    },
)
"""Products and machines whose fastest mapping has a chunk of the stream that is not the longest that fits, though the
longest needs no more HBM traffic: a buffer tile with less of the stream holds more of the resident operand.
"""


def on_random_machines(max_size, max_examples):
    """Decorates a law of (product, machine): it is tried on drawn ones and on those of LESS_OF_THE_STREAM."""

    def decorate(law):
        def test(sizes, batch, cores, sides, l2_bytes, buffer_bytes, buffer_rate, hbm, model):
            machine = small_machine(
                cores=cores,
                width=sides[0],
                depth=sides[1],
                l2_bytes=l2_bytes,
                buffer_bytes=buffer_bytes,
                buffer_words_per_cycle=buffer_rate,
                hbm_bytes_per_s=hbm,
                model=model,
                register_words=Count(value=5, source="test"),
            )
            law(Gemm(*sizes, batch=batch), machine)

        test.__name__ = test.__qualname__ = law.__name__
        for case in LESS_OF_THE_STREAM:
            test = example(**case)(test)
        drawn = given(
            sizes=st.tuples(*[st.integers(1, max_size)] * 3),
            batch=st.integers(1, 3),
            cores=st.integers(1, 5),
            sides=st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2)]),
            l2_bytes=st.integers(24, 80),
            buffer_bytes=st.integers(80, 400),
            buffer_rate=st.sampled_from([0.5, 2.0, 16.0]),
            hbm=st.sampled_from([1e9, 8e9, 64e9]),
            model=st.sampled_from(["consistent", "phaze-2024"]),
        )
        return settings(max_examples=max_examples, deadline=None)(drawn(test))

    return decorate


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
