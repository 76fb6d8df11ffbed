"""Laws of kernel times: no kernel beats the data sheet, and none is slower on a faster chip."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.inputs import InputError
from hardware.kernel_times.attention import DECODE, PREFILL
from hardware.kernel_times.experts import EXPERTS, expert_sums, tokens_by_expert
from hardware.kernel_times.fitted import FORMS, kernel_times
from hardware.kernel_times.form import Rates, overlapping
from hardware.kernel_times.products import DENSE

CHIPS = ("h100-sxm", "h200-sxm", "b200")
RATES = Rates(1e15, 3e12, 132.0, 4.5e11)
SPEC = Path(__file__).parents[2] / "hardware" / "specs" / "kernel_times" / "h100-sxm.yaml"

powers = st.integers(0, 14).map(lambda power: float(2**power))
sizes = st.one_of(powers, st.integers(1, 20_000).map(float))


@st.composite
def shapes_of(draw, kind):
    """One shape of a kind of kernels, as arrays of [1]."""
    if kind == "experts":
        experts = draw(st.sampled_from([8, 64, 128]))
        tokens, chosen = draw(st.integers(1, 4096)), draw(st.integers(1, 8))
        exponent = draw(st.sampled_from([None, 1.2]))
        shape = expert_sums(tokens_by_expert(experts, chosen, tokens, draw(st.sampled_from([1, 4])), exponent))
        shape |= {
            "tokens": tokens,
            "chosen": chosen,
            "experts": experts,
            "element_bytes": draw(st.sampled_from([0.5, 1, 2])),
        }
        shape |= {"hidden": draw(sizes), "width": draw(sizes)}
    else:
        small = {
            "element_bytes": st.sampled_from([0.5625, 1.0, 2.0]),
            "cache_bytes": st.sampled_from([1.0, 2.0]),
            "window": st.sampled_from([0.0, 128.0]),
            "width": st.sampled_from([64.0, 128.0]),
            "chips": st.sampled_from([2.0, 4.0, 8.0]),
            "rounds": st.sampled_from([1.0, 2.0]),
            "eager": st.sampled_from([0.0, 1.0]),
            "heads_together": st.sampled_from([16.0, 64.0]),
        }
        shape = {name: draw(small.get(name, sizes)) for name in FORMS[kind].shapes}
        if "key_heads" in shape:
            shape["heads"] *= shape["key_heads"]
    return {name: np.array([float(value)]) for name, value in shape.items()}


def constants_of(draw, form):
    """Any constants that a fit may find."""
    return {
        name: float(limits.low * (limits.high / limits.low) ** draw(st.floats(0, 1)))
        for name, limits in form.constants.items()
    }


@pytest.mark.parametrize("kind", FORMS)
@given(data=st.data())
def test_a_higher_rate_makes_no_kernel_slower(kind, data):
    form, shape = FORMS[kind], data.draw(shapes_of(kind))
    constants = constants_of(data.draw, form)
    slow = form.seconds(shape, RATES, constants)
    assert np.isfinite(slow).all()
    assert (slow > 0).all()
    # More processors share the same peak, so that each is slower: their number is no rate.
    for rate in ("flops_per_s", "bytes_per_s", "link_bytes_per_s"):
        fast = form.seconds(shape, RATES._replace(**{rate: getattr(RATES, rate) * 1.5}), constants)
        assert (fast <= slow * (1 + 1e-12)).all()


@given(data=st.data())
def test_no_product_beats_the_data_sheet(data):
    shape = data.draw(shapes_of("dense"))
    (seconds,) = DENSE.seconds(shape, RATES, constants_of(data.draw, DENSE))
    m, n, k, element = (shape[name][0] for name in DENSE.shapes)
    assert seconds >= 2 * m * n * k / RATES.flops_per_s
    assert seconds >= (element * (m * k + n * k) + 2 * m * n) / RATES.bytes_per_s


@given(data=st.data())
def test_a_larger_product_is_no_faster(data):
    shape, constants = data.draw(shapes_of("dense")), constants_of(data.draw, DENSE)
    larger = dict(shape)
    name = data.draw(st.sampled_from(["m", "n", "k"]))
    larger[name] = shape[name] + data.draw(sizes)
    assert (DENSE.seconds(larger, RATES, constants) >= DENSE.seconds(shape, RATES, constants) * (1 - 1e-12)).all()


@given(data=st.data())
def test_no_experts_beat_the_data_sheet(data):
    shape = data.draw(shapes_of("experts"))
    (seconds,) = EXPERTS.seconds(shape, RATES, constants_of(data.draw, EXPERTS))
    size = 3 * shape["hidden"][0] * shape["width"][0]
    assert seconds >= 2 * size * shape["rows"][0] / RATES.flops_per_s
    assert seconds >= shape["hit"][0] * size * shape["element_bytes"][0] / RATES.bytes_per_s


@given(data=st.data())
def test_no_attention_beats_the_data_sheet(data):
    constants = constants_of(data.draw, PREFILL) | {"windowed": 1.0}
    shape = data.draw(shapes_of("prefill"))
    tokens, window = shape["tokens"][0], shape["window"][0]
    queries = np.arange(1, tokens + 1)
    pairs = np.minimum(queries, window if window else tokens).sum() * shape["samples"][0] * shape["heads"][0]
    (seconds,) = PREFILL.seconds(shape, RATES, constants)
    assert seconds >= 4 * shape["width"][0] * pairs / RATES.flops_per_s * (1 - 1e-12)

    shape = data.draw(shapes_of("decode"))
    context = min(shape["context"][0], shape["window"][0] or np.inf)
    cache = 2 * shape["samples"][0] * context * shape["key_heads"][0] * shape["width"][0] * shape["cache_bytes"][0]
    (seconds,) = DECODE.seconds(shape, RATES, constants_of(data.draw, DECODE))
    assert seconds >= cache / RATES.bytes_per_s


@given(st.floats(1e-9, 1.0), st.floats(1e-9, 1.0), st.floats(1.0, 8.0))
def test_overlapping_work_takes_the_longer_to_the_sum(first, second, power):
    (seconds,) = overlapping(power, np.array([first]), np.array([second]))
    assert max(first, second) * (1 - 1e-12) <= seconds <= (first + second) * (1 + 1e-12)


@given(
    st.sampled_from([8, 64, 256]), st.integers(1, 8), st.integers(1, 3000),
    st.sampled_from([1, 4, 8]), st.sampled_from([None, 1.01, 1.2]),
)  # fmt: skip
def test_tokens_of_experts_add_up(experts, chosen, tokens, ranks, exponent):
    loads = tokens_by_expert(experts, chosen, tokens, ranks, exponent)
    assert len(loads) == experts // ranks
    assert max(loads) <= tokens * (1 + 1e-9)
    if ranks == 1:
        assert sum(loads) == pytest.approx(tokens * chosen)
    elif exponent is not None:
        assert sum(loads) >= tokens * chosen / ranks - 1  # the busiest rank has at least its share
    assert loads == tokens_by_expert(experts, chosen, tokens, ranks, exponent)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_timed_kernel_is_priced(chip):
    times = kernel_times(chip)
    for kind, form in FORMS.items():
        assert times.variants(kind)
        for variant in times.variants(kind):
            seconds = times.seconds(kind, variant, {name: np.array([1.0, 64.0]) for name in form.shapes})
            assert seconds.shape == (2,)
            assert (seconds > 1e-7).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "floor_s: ",
            "flor_s: ",
            "kernels.0.constants: floor_s, flor_s: must be floor_s, compute_share",
        ),
        ("compute_share: 0.", "compute_share: 10.", "must lie between 0.05 and 1"),
        ("precision: bf16", "precision: fp4", "kernels.0.precision: fp4: must be one of fp16, bf16, fp8, int8"),
        ("chip: h100-sxm", "chip: h100-sxn", "did you mean h100-sxm?"),
    ],
)
def test_faults_of_a_file_are_named(tmp_path, old, new, message):
    file = tmp_path / "chip.yaml"
    file.write_text(SPEC.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        kernel_times(file)
    assert message in str(error.value)


def test_what_was_not_timed_is_refused():
    with pytest.raises(InputError, match="did you mean h100-sxm"):
        kernel_times("h100-sx")
    with pytest.raises(InputError, match="no timed kernel of this name"):
        kernel_times("h100-sxm").seconds("dense", "vllm", {})


def test_at_most_a_third_of_each_table_is_for_fitting():
    marks = json.loads((Path(__file__).parents[2] / "benchmarks" / "data" / "kernel_rows.json").read_text())
    for table in marks.values():
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(table["fitted"]), dtype=np.uint8), count=table["rows"])
        assert bits.sum() == table["for fitting"] <= table["rows"] / 3
