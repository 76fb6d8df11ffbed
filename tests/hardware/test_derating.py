"""Derated times of templates: never faster than ideal ones, monotone in rates, and what they rest on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.derating import CLASS_OF, derating
from hardware.inputs import InputError
from hardware.kernel_model import COLLECTIVES, SHAPES, kernel_model
from tests.hardware.test_kernel_model import CASES

TEMPLATES = ("tpuv4-phaze", "spotlight-opt-350m")


def test_every_kind_of_kernel_has_a_class_with_constants():
    assert set(CLASS_OF) == set(SHAPES)
    assert set(CLASS_OF.values()) == set(derating().classes)


def test_constants_rest_on_several_chips_each_left_out_once_where_there_are_several():
    for known in derating().classes.values():
        assert set(known.left_out) == (set(known.rows) if len(known.rows) > 1 else set())


@pytest.mark.parametrize("name", TEMPLATES)
@given(data=st.data())
def test_derated_times_are_not_shorter_than_ideal_ones_and_more_bandwidth_is_no_slower(name, data):
    kind = data.draw(st.sampled_from(sorted(CASES)))
    shapes = {key: data.draw(st.integers(1, 3)) * value for key, value in CASES[kind].items()}
    if kind == "experts":
        shapes["chosen"], shapes["experts"] = 8, 128
    ideal, derated = (kernel_model(name, ideal=each) for each in (True, False))
    least, seconds = (model.seconds(kind, "bf16", shapes) for model in (ideal, derated))
    assert (seconds.seconds >= least.seconds).all()
    assert least.basis == "ideal" or kind in COLLECTIVES
    machine = derated.machine
    faster = replace(derated, machine=replace(machine, hbm_bytes_per_s=1.5 * machine.hbm_bytes_per_s))
    assert (faster.seconds(kind, "bf16", shapes).seconds <= seconds.seconds * (1 + 1e-12)).all()
    doubled = replace(derated, machine=replace(machine, clock_hz=2 * machine.clock_hz))
    assert (doubled.seconds(kind, "bf16", shapes).seconds <= seconds.seconds * (1 + 1e-12)).all()


def test_a_real_chip_taken_for_a_template_has_none_of_its_timed_constants():
    own, template = kernel_model("a100-sxm"), kernel_model("a100-sxm", as_template=True)
    answers = [model.seconds("dense", "bf16", CASES["dense"]) for model in (own, template)]
    assert [each.basis for each in answers] == ["fitted", "derated"]
    assert answers[1].seconds == pytest.approx(answers[0].seconds, rel=0.3)
    ideal = kernel_model("a100-sxm", as_template=True, ideal=True).seconds("dense", "bf16", CASES["dense"])
    assert (ideal.seconds >= 2 * 4096.0**3 / 312e12 * (1 - 3e-3)).all()


def test_derated_products_are_near_those_that_were_fitted_on_chips_that_constants_rest_on():
    for name in ("h100-sxm", "b200"):
        sizes = {"m": np.array([1024.0, 4096.0, 8192.0]), "n": 8192.0, "k": 8192.0}
        fitted, derated = (
            kernel_model(name, as_template=each).seconds("dense", "bf16", sizes) for each in (False, True)
        )
        assert derated.seconds == pytest.approx(fitted.seconds, rel=0.35)


def test_what_a_template_cannot_be_asked_for():
    with pytest.raises(InputError, match="must have 2 bytes: prefill on a template takes whole words"):
        kernel_model("tpuv4-phaze").seconds("prefill", "int8", CASES["prefill"])
    with pytest.raises(InputError, match="tpuv4-phaze has a rate for; the nearest in bytes is int8"):
        kernel_model("tpuv4-phaze").seconds("dense", "fp8", CASES["dense"])
    with pytest.raises(InputError, match="cores: must be given for products to be mapped to them"):
        kernel_model("mi300x", as_template=True)
