"""``dse reproduce silicon``: every published figure next to ours, each with a source; and the fit of constants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.reproduce.driver import job_of
from dse.reproduce.silicon.fit import non_negative_least_squares, with_bounds
from dse.reproduce.silicon.parts import PAPER, SiliconOptions
from dse.reproduce.silicon.rows import rows, table
from hardware.inputs import InputError
from hardware.silicon.tables import Fitted, fitted


@pytest.fixture(scope="module")
def sections():
    return {name: part.make(()) for name, part in PAPER.parts.items()}


def test_every_row_has_a_source():
    for name in ("bills", "servers", "blocks", "designs"):
        assert all(row["source"] for row in table(name)), name
    assert all(row["src_die"] or row["src_compute"] for row in rows())


def test_every_published_figure_is_next_to_ours(sections):
    published = {row["name"]: float(row["die_mm2"]) for row in rows() if row["die_mm2"]}
    assert {each.model: each.paper for each in sections["dies"].comparisons} == published
    bills = {(row["name"], row["line"]): float(row["usd"]) for row in table("bills")}
    totals = {name: sum(usd for (each, _), usd in bills.items() if each == name) for name, _ in bills}
    compared = {(each.model, each.quantity): each.paper for each in sections["bills"].comparisons}
    assert compared == bills | {(name, "total"): usd for name, usd in totals.items()}
    for section in sections.values():
        assert all(len(row) == len(each.headers) for each in section.tables for row in each.rows)
        assert all(each.ours is not None and each.ours > 0 for each in section.comparisons)


def test_areas_of_llmcompass_s_designs_are_near_its_own_model(sections):
    for each in sections["designs"].comparisons:
        assert each.ratio == pytest.approx(1, abs=0.2), each.model
    parts = {(each.model, each.quantity): each.ratio for each in sections["blocks"].comparisons}
    for block in ("cores", "shared SRAM", "memory PHY", "memory control"):
        assert parts["a100-sxm-80gb", block] == pytest.approx(1, abs=0.2)


def test_rows_are_chosen_by_name_and_unknown_ones_refused():
    (area,) = PAPER.parts["dies"].make(("h100-sxm",)).comparisons
    assert area.model == "h100-sxm"
    with pytest.raises(InputError, match="did you mean h100-sxm"):
        job_of(PAPER, (), SiliconOptions(chips="h100-sx"))


def test_the_constants_in_use_are_those_that_the_fit_gives():
    again = with_bounds()
    for key in Fitted.model_fields:
        assert getattr(again, key) == getattr(fitted(), key), key


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=st.integers(3, 6))
def test_the_least_squares_are_not_negative_and_no_step_from_them_is_better(data, rows):
    number = st.floats(-3, 3)
    lines = np.array([[data.draw(number) for _ in range(3)] for _ in range(rows)])
    targets = np.array([data.draw(number) for _ in range(rows)])
    found = non_negative_least_squares(lines, targets)
    least = np.sum((lines @ found - targets) ** 2)
    assert (found >= 0).all()
    for unknown in range(3):
        for step in (-0.01, 0.01):
            other = found.copy()
            other[unknown] = max(0.0, other[unknown] + step)
            assert np.sum((lines @ other - targets) ** 2) >= least - 1e-6
