"""Rates of products by the formats of their operands."""

import pytest

from hardware.product_rates import MissingRateError, ProductRates
from hardware.specs import accelerator, list_specs

A100, V100, TPU, H100 = (accelerator(name).products for name in ("a100-sxm", "v100", "tpuv4", "h100-sxm"))


@pytest.mark.parametrize(
    ("rates", "operands", "precision", "tflops"),
    [
        (V100, ["fp32"], "default", 15.7),  # no TF32
        (V100, ["fp32"], "highest", 15.7),
        (V100, ["fp16"], "default", 125.3),
        (V100, ["fp64"], "default", 7.8),
        (A100, ["fp32"], "default", 156),  # TF32
        (A100, ["fp32"], "high", 156),
        (A100, ["fp32"], "highest", 19.5),
        (A100, ["bf16", "bf16"], "highest", 312),
        (A100, ["bf16", "fp32"], "highest", 19.5),  # the widest operand decides
        (A100, ["int8", "bf16"], "default", 312),  # floating point before integers
        (A100, ["int8", "int8"], "default", 624),
        (A100, ["int8", "int32"], "default", 19.5),
        (H100, ["fp8", "bf16"], "default", 989.4),
        (H100, ["fp8"], "default", 1978.9),
        (TPU, ["fp32"], "default", 275),  # one pass of bfloat16, three, six
        (TPU, ["fp32"], "high", 91.7),
        (TPU, ["fp32"], "highest", 45.8),
    ],
)
def test_rates_are_those_of_the_data_sheets(rates, operands, precision, tflops):
    assert rates.rate(operands, precision) == pytest.approx(tflops * 1e12, rel=1e-3)


def test_of_two_equally_wide_operands_the_slower_decides():
    rates = ProductRates("x", (("fp16", 2.0), ("bf16", 1.0)))
    assert rates.rate(["fp16", "bf16"]) == rates.rate(["bf16", "fp16"]) == 1.0


@pytest.mark.parametrize(
    ("rates", "operand", "nearest"),
    [
        (V100, "bf16", "fp16"),
        (A100, "fp8", "bf16"),
        (V100, "int8", "int32"),
        (TPU, "fp64", "fp32"),
        (A100, "int64", "int32"),
    ],
)
def test_a_format_without_a_rate_is_refused_with_the_nearest_that_has_one(rates, operand, nearest):
    with pytest.raises(MissingRateError, match=f"has no rate for products of {operand}; .* is {nearest} "):
        rates.rate([operand])


def test_a_spec_without_rates_has_those_of_its_elements_alone():
    spotlight = accelerator("spotlight-opt-350m")
    assert dict(spotlight.products.flops_per_s) == dict.fromkeys(("fp16", "bf16"), spotlight.machines.peak_flops[0])


@pytest.mark.parametrize("name", list_specs())
def test_stated_rates_of_16_bits_are_those_of_the_array(name):
    chosen = accelerator(name)
    rates = dict(chosen.products.flops_per_s)
    stated = [rates[each] for each in ("fp16", "bf16") if each in rates]
    assert stated == [pytest.approx(float(chosen.machines.peak_flops[0]), rel=2e-3)] * len(stated) != []
