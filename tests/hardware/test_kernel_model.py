"""One interface for kernel times: what an answer is, laws that hold for all chips, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hardware.chips import list_chips
from hardware.inputs import InputError
from hardware.kernel_model import COLLECTIVES, SHAPES, kernel_model
from hardware.precisions import PRECISIONS

ROOT = Path(__file__).parents[2]
CASES = {
    "dense": {"m": 4096, "n": 4096, "k": 4096},
    "experts": {"tokens": 512, "hidden": 2048, "width": 768, "chosen": 8, "experts": 128},
    "prefill": {"samples": 2, "tokens": 2048, "heads": 32, "key_heads": 8, "width": 128},
    "decode": {"samples": 16, "context": 4096, "heads": 32, "key_heads": 8, "width": 128},
    "latent prefill": {"samples": 1, "tokens": 2048, "heads": 16},
    "latent decode": {"samples": 16, "context": 4096, "heads": 16},
    "vector": {"elements": 2**24},
    "all-reduce": {"chips": 4, "bytes": 2**20},
    "nccl": {"chips": 4, "bytes": 2**26},
}


@pytest.mark.parametrize("name", [*list_chips(), "tpuv4-phaze"])
def test_every_chip_prices_every_kind_of_kernel_and_says_what_its_time_is(name):
    model = kernel_model(name)
    product_format = next(each for each in PRECISIONS if each in dict(model.chip.rates))
    assert set(CASES) == set(SHAPES)
    for kind, shapes in CASES.items():
        answer = model.seconds(kind, product_format, shapes)
        assert answer.seconds.shape == (1,)
        assert np.isfinite(answer.seconds).all()
        assert (answer.seconds > 0).all()
        assert answer.basis in ("measured", "fitted", "derated", "ideal")
        assert answer.rests_on


@pytest.mark.parametrize("name", list_chips())
def test_no_product_beats_the_peak_in_any_format(name):
    model = kernel_model(name)
    rates = dict(model.chip.rates)
    for product_format in (each for each in PRECISIONS if each in rates):
        sizes = np.array([1.0, 128.0, 5000.0])
        answer = model.seconds("dense", product_format, {"m": sizes, "n": 4096, "k": 4096})
        assert (answer.seconds * rates[product_format] >= 2 * sizes * 4096**2 * (1 - 3e-3)).all()


@given(st.data())
def test_a_chip_with_higher_rates_is_no_slower(data):
    model = kernel_model(data.draw(st.sampled_from(["h100-sxm", "b200", "mi300x", "gb200", "v100"])))
    kind = data.draw(st.sampled_from(sorted(set(CASES) - {"dense", "vector"} | {"dense"})))
    shapes = {name: data.draw(st.integers(1, 4)) * value for name, value in CASES[kind].items()}
    if kind == "experts":
        shapes["chosen"], shapes["experts"] = 8, 128
    faster = replace(
        model.chip,
        peak_flops={each: 1.5 * rate for each, rate in model.chip.peak_flops.items()},
        rates=tuple((each, 1.5 * rate) for each, rate in model.chip.rates),
        hbm_bytes_per_s=1.5 * model.chip.hbm_bytes_per_s,
    )
    times = None if model.times is None else replace(model.times, chip=faster)
    slow = model.seconds(kind, "bf16" if "bf16" in model.chip.peak_flops else "fp16", shapes).seconds
    fast = replace(model, chip=faster, times=times).seconds(
        kind, "bf16" if "bf16" in model.chip.peak_flops else "fp16", shapes
    )
    assert (fast.seconds <= slow * (1 + 1e-12)).all()


def test_what_times_rest_on():
    fitted = kernel_model("h100-sxm").seconds("dense", "fp8", CASES["dense"])
    assert fitted.basis == "fitted"
    assert "rows on h100-sxm" in fitted.rests_on
    assert 0.01 < fitted.error < 0.3
    calibrated = kernel_model("a100-sxm").seconds("dense", "bf16", CASES["dense"])
    assert (calibrated.basis, "LLMCompass" in calibrated.rests_on) == ("fitted", True)
    eight_bits = kernel_model("a100-sxm").seconds("dense", "int8", CASES["dense"])
    assert (eight_bits.basis, eight_bits.seconds[0] < calibrated.seconds[0]) == ("ideal", True)
    shares = kernel_model("gb300").seconds("dense", "bf16", CASES["dense"])
    assert (shares.basis, "timed on b200" in shares.rests_on) == ("measured", True)
    assert kernel_model("mi300x").seconds("decode", "bf16", CASES["decode"]).basis == "ideal"


def test_one_engine_may_be_asked_for():
    model = kernel_model("h100-sxm")
    times = model.times
    for variant in times.variants("dense"):
        asked = model.seconds("dense", "bf16", CASES["dense"], variant)
        assert asked.rests_on.startswith(variant)
    with pytest.raises(InputError, match="no timed kernel of this name"):
        model.seconds("dense", "bf16", CASES["dense"], "vllm")


def test_arrays_are_priced_as_each_of_their_kernels():
    model = kernel_model("b200")
    sizes = np.array([16.0, 300.0, 4096.0])
    together = model.seconds("dense", "fp4", {"m": sizes, "n": 512, "k": 2048}).seconds
    alone = [model.seconds("dense", "fp4", {"m": each, "n": 512, "k": 2048}).seconds[0] for each in sizes]
    assert together.tolist() == alone


@pytest.mark.parametrize(
    ("name", "product_format", "nearest"),
    [("h100-sxm", "fp4", "fp8"), ("a100-sxm", "fp8", "int8"), ("tpuv4-phaze", "fp8", "int8"), ("v100", "bf16", "fp16")],
)
def test_a_format_that_the_chip_lacks_is_refused_with_the_nearest_in_bytes(name, product_format, nearest):
    rule = f"must be a format that {name} has a rate for; the nearest in bytes is {nearest}"
    with pytest.raises(InputError, match=rule):
        kernel_model(name).seconds("dense", product_format, CASES["dense"])


@pytest.mark.parametrize(
    ("kind", "shapes", "rule"),
    [
        ("dense", {"m": 1, "n": 1}, "dense.k: must be given"),
        ("dense", {"m": 0, "n": 1, "k": 1}, "dense.m: 0.0: must be positive and finite"),
        ("decode", CASES["decode"] | {"context": np.inf}, "decode.context: Infinity: must be positive and finite"),
        ("densse", {"m": 1}, "did you mean dense?"),
    ],
)
def test_shapes_that_are_none_are_refused(kind, shapes, rule):
    with pytest.raises(InputError) as error:
        kernel_model("h100-sxm").seconds(kind, "bf16", shapes)
    assert rule in str(error.value)


def own_chip(folder, base, **changes):
    document = yaml.safe_load((ROOT / "hardware" / "specs" / "chips" / f"{base}.yaml").read_text(encoding="utf-8"))
    document = {key: value for key, value in {**document, **changes}.items() if value is not None}
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def test_constants_of_another_chip_hold_at_ones_own_rates_and_need_its_processors(tmp_path):
    same_die = {"value": 132, "source": "own"}
    file = own_chip(tmp_path, "h200-sxm", name="own", processors=same_die)
    answer = kernel_model(file).seconds("dense", "bf16", CASES["dense"])
    assert answer.seconds == kernel_model("h200-sxm").seconds("dense", "bf16", CASES["dense"]).seconds
    assert "rows on h200-sxm" in answer.rests_on
    empty = own_chip(tmp_path, "h200-sxm", name="own", processors=None)
    with pytest.raises(InputError, match="processors: must be given for fitted kernel times to hold for the chip"):
        kernel_model(empty).seconds("dense", "bf16", CASES["dense"])


def test_collectives_have_the_rate_of_the_network_where_nothing_was_fitted():
    assert set(COLLECTIVES) < set(SHAPES)
    answer = kernel_model("a100-sxm").seconds("nccl", "bf16", CASES["nccl"])
    assert "nvlink3" in answer.rests_on
