"""Products of operands narrower than the words of a template."""

import numpy as np
import pytest
import yaml

from hardware.chips import chip
from hardware.estimator import estimate
from hardware.inputs import InputError
from hardware.kernel_model import kernel_model
from hardware.operations import Vector
from hardware.packed_words import PackedWords, packed_words

ARRAY = {"tensor_cores": 4, "core_width": 64, "core_depth": 64}
PEAK = 2.0 * 1.0e9 * 4 * 64 * 64
SIZES = {
    "m": np.array([4096.0, 64.0, 1000.0]),
    "n": np.array([4096.0, 8192.0, 999.0]),
    "k": np.array([4096.0, 8192.0, 1001.0]),
}
EXPERTS = {"tokens": 4096.0, "hidden": 1024.0, "width": 512.0, "chosen": 2.0, "experts": 8.0}


def template(folder, name="mine", **rates):
    """A file of a template whose array has ``PEAK``, with rates over it by format."""
    said = {"source": "a test"}
    document = {
        "schema": "dse.chip/1", "name": name, "title": "Mine",
        "template": {**said, **ARRAY, "vector_cores": 4, "global_buffer_mib": 32},
        "rates": {each: {"value": times * PEAK, **said} for each, times in rates.items()},
        "clock_hz": {"value": 1.0e9, **said}, "hbm_bytes_per_s": {"value": 1.0e12, **said},
        "hbm_gib": {"value": 32, **said}, "network": {"name": "tpuv4", **said},
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_word_holds_as_many_operands_as_fit_and_takes_as_long_as_the_rate_says():
    rates = {"bf16": 1.0, "fp8": 2.0, "int8": 1.0, "fp4": 4.0}
    assert packed_words("fp8", rates) == PackedWords(2, 1.0)
    assert packed_words("int8", rates) == PackedWords(2, 2.0)
    assert packed_words("fp4", rates) == PackedWords(4, 1.0)
    assert packed_words("bf16", rates) is None
    assert packed_words("fp8", {"fp16": 1.0, "fp8": 2.0}) == PackedWords(2, 1.0)
    assert PackedWords(4, 1.0).inner(9) == 3


def test_a_product_of_bytes_is_that_of_half_as_many_words(tmp_path):
    model = kernel_model(template(tmp_path, bf16=1, fp8=2, fp4=4), ideal=True)
    halves = SIZES | {"k": np.ceil(SIZES["k"] / 2)}
    assert np.array_equal(model.seconds("dense", "fp8", SIZES).seconds, model.seconds("dense", "bf16", halves).seconds)
    for kind, shapes in (("dense", SIZES), ("experts", EXPERTS)):
        wide, byte, four = (model.seconds(kind, each, shapes).seconds for each in ("bf16", "fp8", "fp4"))
        assert np.all(four <= byte)
        assert np.all(byte <= wide)
        assert np.any(four < byte)


def test_no_format_is_slower_than_words_nor_faster_than_its_rate(tmp_path):
    model = kernel_model(template(tmp_path, bf16=1, int8=1, fp8=1.5), ideal=True)
    wide = model.seconds("dense", "bf16", SIZES).seconds
    for name, times in (("int8", 1.0), ("fp8", 1.5)):
        narrow = model.seconds("dense", name, SIZES).seconds
        assert np.all(narrow <= wide)
        assert np.all(narrow >= 2 * SIZES["m"] * SIZES["n"] * SIZES["k"] / (times * PEAK) * (1 - 1e-9))


def test_activations_between_experts_are_not_slowed_by_packed_products(tmp_path):
    model = kernel_model(template(tmp_path, bf16=1, fp8=1.5), ideal=True)
    wide, narrow = (model.seconds("experts", each, EXPERTS).seconds[0] for each in ("bf16", "fp8"))
    elements = int(EXPERTS["tokens"] * EXPERTS["chosen"] * EXPERTS["width"])
    silu = Vector("silu", elements, 2 * elements, elements)
    activation = estimate([silu], model.machine, None).all_cores_s[0, 0]
    assert narrow - activation < 0.7 * (wide - activation)


@pytest.mark.parametrize(
    ("rates", "rule"),
    [
        ({"fp8": 2.0}, "rates must state bf16 or fp16, in which the array computes, with fp8"),
        ({"fp32": 0.5}, "rates must state bf16 or fp16, in which the array computes, with fp32"),
        ({"bf16": 1.0, "fp8": 3.0}, f"rates.fp8: {3 * PEAK:g}: must be {PEAK:g} to {2 * PEAK:g}: a word of 16 bits"),
        ({"fp16": 1.0, "fp4": 0.5}, f"rates.fp4: {PEAK / 2:g}: must be {PEAK:g} to {4 * PEAK:g}: a word of 16 bits"),
    ],
)
def test_rates_that_words_do_not_have_are_refused_with_those_that_they_have(tmp_path, rates, rule):
    with pytest.raises(InputError) as refused:
        chip(template(tmp_path, **rates))
    (line,) = str(refused.value).splitlines()
    assert rule in line


def test_a_rate_that_is_not_the_array_s_is_noted(tmp_path):
    assert chip(template(tmp_path, bf16=1, fp8=2)).notes == ()
    (note,) = chip(template(tmp_path, bf16=2)).notes
    assert f"rates.bf16 is {2 * PEAK:g}, but the array of the template computes {PEAK:g}" in note
