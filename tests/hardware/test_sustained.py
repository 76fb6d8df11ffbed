"""Shares of kernels that were timed on an accelerator."""

import math

import pytest

from hardware.chips import chip
from hardware.inputs import InputError
from hardware.sustained import AttentionShares, MeasuredShare, SustainedShares

SHAPES = [
    {"width": 128, "tokens": 4096, "value": 0.4},
    {"width": 128, "tokens": 16384, "value": 0.5},
    {"width": 192, "tokens": 8192, "value": 0.3},
]
SHARES = AttentionShares(precision="bf16", shapes=SHAPES, source="a table")


@pytest.mark.parametrize(
    ("width", "tokens", "expected"),
    [
        (128, 4096, 0.4),
        (128, 8192, 0.45),  # half way in the logarithm
        (128, 16384, 0.5),
        (128, 1024, 0.4),
        (128, 1 << 20, 0.5),
        (64, 16384, 0.5),
        (192, 4096, 0.3),
        (256, 1 << 20, 0.3),
        (math.isqrt(128 * 192), 4096, 0.4),  # just below the middle of both widths
    ],
)
def test_attention_takes_the_nearest_width_and_lies_between_lengths(width, tokens, expected):
    assert SHARES.value(width, tokens) == pytest.approx(expected, rel=1e-12)


def test_a_chip_yields_what_was_measured_and_nothing_else():
    shares = SustainedShares(attention_rate=SHARES, memory=MeasuredShare(value=0.7, source="another"))
    assert list(shares.on(128, 8192, "bf16")) == [
        ("attention_rate", pytest.approx(0.45), "a table"),
        ("memory", 0.7, "another"),
    ]
    assert list(SustainedShares().on(128, 8192, "bf16")) == []


@pytest.mark.parametrize(
    ("precision", "known"),
    [
        ("bf16", {"matrix", "attention_rate"}),
        ("fp8", {"attention_rate"}),  # has attention in bf16
        ("fp4", {"attention_rate"}),
        ("fp16", set()),
    ],
)
def test_shares_are_known_in_the_precision_that_they_were_timed_in(precision, known):
    assert {share.rate for share in chip("b200").sustained.on(128, 8192, precision)} == known


def test_chips_of_one_generation_have_the_same_shares_and_say_whose_they_are():
    b200, gb200, gb300 = map(chip, ("b200", "gb200", "gb300"))
    assert b200.sustained == gb200.sustained == gb300.sustained
    assert b200.timed_on == gb200.timed_on == gb300.timed_on == "b200"


# By width and tokens: heads, and shares of the peak, which count no mask (SimuMax, sdp_fwd and sdp_bwd).
B200_ATTENTION = {
    (128, 4096): [
        (64, 0.87152, 0.72940), (64, 0.83510, 0.72524), (32, 0.73178, 0.79635), (32, 0.72607, 0.79515),
        (16, 0.57827, 0.75532), (16, 0.57461, 0.75664), (8, 0.31018, 0.65859), (8, 0.30958, 0.65877),
        (128, 0.99665, 0.83158), (128, 0.94638, 0.82452), (32, 0.72226, 0.78700), (32, 0.73126, 0.78609),
        (16, 0.58235, 0.74162), (16, 0.57498, 0.72961), (8, 0.31721, 0.63260), (8, 0.31335, 0.62498),
        (4, 0.16687, 0.34562), (4, 0.16757, 0.34304),
    ],
    (128, 32768): [(16, 1.16538, 0.87171), (8, 1.20176, 0.95486)],
    (128, 131072): [(16, 0.98882, 0.82666), (8, 1.00279, 0.82642)],
    (192, 4096): [
        (128, 0.83062, 0.64255), (128, 0.83087, 0.64389), (64, 0.88528, 0.60858), (64, 0.88685, 0.60705),
        (32, 0.78891, 0.61018), (32, 0.78244, 0.61131), (16, 0.63679, 0.59290), (16, 0.63850, 0.59319),
    ],
    (192, 32768): [(64, 0.81224, 0.64888)],
    (192, 131072): [(64, 0.68387, 0.65803)],
}  # fmt: skip


@pytest.mark.parametrize(("width", "tokens"), B200_ATTENTION)
def test_shares_of_attention_are_work_over_time_of_all_shapes_of_the_table(width, tokens):
    """Of both passes, by half of the stated shares: backward passes have 2.5 times the work of forward ones."""
    rows = B200_ATTENTION[width, tokens]
    seconds = sum(heads / (forward / 2) + 2.5 * heads / (backward / 2) for heads, forward, backward in rows)
    expected = 3.5 * sum(heads for heads, *_ in rows) / seconds
    shapes = chip("b200").sustained.attention_rate.shapes
    assert [each.value for each in shapes if (each.width, each.tokens) == (width, tokens)] == [
        pytest.approx(expected, abs=5.1e-4)
    ]
    assert len(shapes) == len(B200_ATTENTION)


# Tflop/s by tokens, of heads of 128 on an H100: forward with a causal mask, backward without one (Shah et al. 2024,
# figures 5 and 6).
H100_ATTENTION = {
    "flash-attention-2": [
        (512, 191, 214), (1024, 260, 260), (2048, 298, 291), (4096, 319, 310), (8192, 333, 318), (16384, 335, 322)
    ],
    "cudnn": [
        (512, 315, 305), (1024, 410, 408), (2048, 484, 465), (4096, 518, 499), (8192, 529, 518), (16384, 539, 516)
    ],
}  # fmt: skip


@pytest.mark.parametrize("kernel", H100_ATTENTION)
def test_shares_of_kernels_are_work_over_time_of_both_passes(kernel):
    h100 = chip("h100-sxm")
    for tokens, forward, backward in H100_ATTENTION[kernel]:
        expected = 3.5 / (1 / forward + 2.5 / backward) * 1e12 / h100.peak_flops["bf16"]
        assert h100.sustained.attention(kernel).value(128, tokens) == pytest.approx(expected, abs=6e-4)
    assert len(h100.sustained.attention(kernel).shapes) == len(H100_ATTENTION[kernel])
    assert all(chip(name).sustained == h100.sustained for name in ("h200-sxm", "h800-sxm", "h100-96gb"))


def test_a_kernel_that_was_not_timed_is_not_known():
    shares = SustainedShares(attention_rate=SHARES, attention_kernels=[{**SHARES.model_dump(), "kernel": "cudnn"}])
    assert shares.attention(None) == SHARES
    assert shares.attention("cudnn").kernel == "cudnn"
    assert shares.attention("flash-attention-3") is None
    assert list(shares.on(128, 8192, "bf16", "flash-attention-3")) == []


def test_the_share_of_products_is_what_its_source_states():
    assert chip("b200").sustained.matrix.value == pytest.approx(0.48781, abs=5e-4)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("sustained: {matrix: {precision: bf16, value: 1.2, source: ours}}", "sustained.matrix.value"),
        ("sustained: {memory: {value: .nan, source: ours}}", "numbers must be finite"),
        ("sustained: {memory: {value: 1e-13, source: ours}}", "must be at least 0.001"),
        ("sustained: {vector: {value: 0.2, source: ours}}", "sustained.vector"),
        ("sustained: {matrix: {value: 0.5, source: ours}}", "sustained.matrix.precision"),
        ("sustained: {attention_rate: {precision: bf16, shapes: [], source: ours}}", "sustained.attention_rate.shapes"),
        ("sustained_as: {name: a100-sxm, source: ours}", "sustained_as.name"),
        (
            "sustained: {attention_kernels: [{precision: bf16, source: ours, shapes: ["
            "{width: 64, tokens: 8, value: 0.2}]}]}",
            "must name a kernel each, and each once",
        ),
        ("product_ratios: {bf16: {value: 0, source: ours}}", "product_ratios.bf16.value"),
        ("sustained_as: {name: b20, source: ours}", "b200"),
        (
            "sustained: {memory: {value: 0.5, source: ours}}\nsustained_as: {name: b200, source: ours}",
            "must not be given together with sustained",
        ),
        (
            "sustained: {attention_rate: {precision: bf16, source: ours, shapes: ["
            "{width: 64, tokens: 8, value: 0.2}, {width: 64, tokens: 8, value: 0.3}]}}",
            "must not repeat a pair of width and number of tokens",
        ),
    ],
)
def test_a_fault_in_a_chip_of_the_user_is_one_line(tmp_path, more, rule):
    plain = (
        "name: ours\ntitle: Ours\npeak_flops: {bf16: {value: 1e+15, source: ours}}\n"
        "hbm_gib: {value: 80, source: ours}\n"
        "hbm_bytes_per_s: {value: 3e+12, source: ours}\nnetwork: {name: dgx-h100, source: ours}\n"
    )
    file = tmp_path / "ours.yaml"
    file.write_text(plain + more + "\n")
    with pytest.raises(InputError) as caught:
        chip(file)
    assert rule in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
