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
SHARES = AttentionShares(shapes=SHAPES, source="a table")


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
    assert list(shares.on(128, 8192)) == [
        ("attention_rate", pytest.approx(0.45), "a table"),
        ("memory", 0.7, "another"),
    ]
    assert list(SustainedShares().on(128, 8192)) == []


def test_shares_of_the_chips_are_what_their_sources_state():
    """Work over time of both passes, by the stated rates: backward passes have 2.5 times the work of forward ones."""

    def together(forward, backward):
        return 3.5 / (1 / forward + 2.5 / backward)

    mi355x, b200 = chip("mi355x"), chip("b200")
    known = {share.rate: share.value for share in mi355x.sustained.on(128, 8192)}
    rows = [(1, 992), (1, 1091), (1, 1256), (2, 1534), (2, 1554), (2, 1385), (0.5, 1203), (0.5, 1208), (0.5, 1182)]
    rows += [(1, 1268), (1, 1287)]  # Tflop/s by the work of a product, of the smallest but one
    tflops = sum(work for work, _ in rows) / sum(work / rate for work, rate in rows)
    assert known["matrix"] == pytest.approx(tflops * 1e12 / mi355x.peak_flops["bf16"], abs=5e-4)
    assert known["attention_rate"] == pytest.approx(
        together(1278, 2105 / 2) * 1e12 / mi355x.peak_flops["bf16"], abs=5e-4
    )
    # Shares of the peak of SimuMax's table, which counts no mask, by heads; at 32,768 tokens.
    heads = {16: (1.16538, 0.87171), 8: (1.20176, 0.95486)}
    seconds = sum(each / (forward / 2) + 2.5 * each / (backward / 2) for each, (forward, backward) in heads.items())
    assert b200.sustained.attention_rate.value(128, 32768) == pytest.approx(3.5 * sum(heads) / seconds, abs=5e-4)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("sustained: {matrix: {value: 1.2, source: ours}}", "sustained.matrix.value"),
        ("sustained: {vector: {value: 0.2, source: ours}}", "sustained.vector"),
        ("sustained: {attention_rate: {shapes: [], source: ours}}", "sustained.attention_rate.shapes"),
        (
            "sustained: {attention_rate: {source: ours, shapes: ["
            "{width: 64, tokens: 8, value: 0.2}, {width: 64, tokens: 8, value: 0.3}]}}",
            "each width and number of tokens once",
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
