"""What is offered where nothing fits: every change that makes it fit, and no other."""

import json
import math
from dataclasses import replace

from hypothesis import assume, given, settings

from dse.placement.contract import infeasibility
from dse.placement.levers import levers, with_microbatches
from dse.placement.solve import solve
from tests.placement.brute_force import min_batch_s, min_memory_bytes
from tests.placement.strategies import chain_of, problems
from tests.placement.test_formats import document


def fits(problem, **changes):
    return math.isfinite(min_batch_s(replace(problem, **changes)))


def offered(problem, *words):
    """The lever that begins with ``words``, if there is one."""
    return next((lever for lever in levers(problem) if lever.startswith(words)), None)


@settings(max_examples=40, deadline=None)
@given(problems(max_layers=3, widths=((1,), (1, 2))))
def test_exactly_the_changes_after_which_some_placement_exists_are_offered(problem):
    problem = replace(problem, hbm_bytes=problem.hbm_bytes / 4)
    assume(not fits(problem))
    assert offered(problem, f"hbm_bytes of at least {int(min_memory_bytes(problem))} ")
    schedule = "gpipe" if problem.pipeline_schedule == "1f1b" else "1f1b"
    assert bool(offered(problem, f"pipeline_schedule {schedule}")) == fits(problem, pipeline_schedule=schedule)
    granularity = "stage" if problem.recompute_granularity == "layer" else "layer"
    words = "" if problem.recompute else "recompute and "
    own = not problem.recompute and fits(problem, recompute=True)
    other = fits(problem, recompute=True, recompute_granularity=granularity) and not own
    assert ("recompute" in levers(problem)) == own
    assert bool(offered(problem, f"{words}recompute_granularity {granularity}")) == other
    parts = next((parts for parts in (2, 4, 8) if fits(with_microbatches(problem, parts))), None)
    smaller = offered(problem, "microbatches 1/2 ", "microbatches 1/4 ", "microbatches 1/8 ")
    assert smaller == (f"microbatches 1/{parts} as large ({parts * problem.microbatches} of them)" if parts else None)
    numbers = [int(lever.split()[0]) for lever in levers(problem) if "accelerators instead of" in lever]
    assert all(fits(problem, accelerators=n) and not fits(problem, accelerators=n - 1) for n in numbers)
    assert bool(numbers) == fits(problem, accelerators=6 * problem.microbatches)


def test_one_size_is_written_in_one_unit():
    problem = chain_of([(1.0, 1.0)], sizes=[(3e8, 0.0)], accelerators=1, hbm_bytes=1e8)
    shortfall = solve(problem).shortfall
    assert shortfall is not None
    explanation = infeasibility(shortfall, levers(problem)).explanation
    assert "needs 572.3 MB, but 95.37 MB are available (500,000,000 bytes too few)" in explanation
    assert "at least 600000000 (572.3 MB)" in explanation


def test_nothing_is_offered_that_does_not_help():
    # a layer takes 2 · 10 bytes of weights and 5; more stages stash 5 for each one behind: 25, 30, 35
    problem = chain_of([(1.0, 1.0)] * 3, sizes=[(10.0, 5.0)] * 3, accelerators=1, hbm_bytes=30.0)
    assert levers(problem) == ["hbm_bytes of at least 75 (75 B)"]
    assert levers(replace(problem, accelerators=2, hbm_bytes=40.0)) == [
        "hbm_bytes of at least 50 (50 B)",
        "3 accelerators instead of 2",
    ]


def test_recomputation_that_is_not_enough_is_offered_with_the_memory_that_it_leaves():
    # stashes of 50 bytes a microbatch; recomputation keeps the single byte that enters
    problem = chain_of([(1.0, 1.0)] * 2, sizes=[(1.0, 50.0)] * 2, accelerators=2, hbm_bytes=60.0)
    assert levers(problem)[:2] == ["hbm_bytes of at least 102 (102 B)", "recompute"]
    assert "recompute and hbm_bytes of at least 52 (52 B)" in levers(replace(problem, hbm_bytes=40.0))


def test_smaller_microbatches_are_as_large_as_fits():
    # the first of two stages holds 2 + 50 + 50 bytes; of half the size, 2 + 25 + 25
    problem = chain_of([(1.0, 1.0)] * 2, sizes=[(1.0, 50.0)] * 2, accelerators=2, hbm_bytes=60.0)
    assert "microbatches 1/2 as large (16 of them)" in levers(problem)
    assert "microbatches 1/4 as large (32 of them)" in levers(replace(problem, hbm_bytes=40.0))
    assert solve(with_microbatches(problem, 2)).placement is not None


def test_under_gpipe_one_forward_one_backward_and_the_fewest_accelerators_that_fit_are_offered():
    # a layer takes 2 · 1 + 10 bytes and 10 for each microbatch of the pipeline: 8, 4, 3 or 2 of them
    problem = chain_of(
        [(1.0, 1.0)] * 2, sizes=[(1.0, 10.0)] * 2, accelerators=4, hbm_bytes=30.0, pipeline_schedule="gpipe"
    )
    # two pipelines of two stages stash 4 each: 12 + 40; four of one stage stash 2: 24 + 40
    assert levers(problem) == [
        "hbm_bytes of at least 52 (52 B)",
        "recompute",
        "pipeline_schedule 1f1b",
        "16 accelerators instead of 4",
    ]
    assert solve(replace(problem, accelerators=15)).placement is None


def test_a_lever_that_was_put_into_a_result_does_not_pass_the_check(dse, tmp_path):
    path, run = tmp_path / "layers.json", tmp_path / "run"
    path.write_text(json.dumps(document() | {"hbm_bytes": 10, "recompute": False}))
    assert dse("place", path, "--out", run).code == 1
    result = json.loads((run / "result.json").read_text())
    shown = result["infeasibility"]["levers"]
    assert len(shown) > 1
    assert result["infeasibility"]["explanation"].endswith(f"It would fit with {', or with '.join(shown)}.")
    shown.append("more luck")
    (run / "result.json").write_text(json.dumps(result))
    assert "levers" in dse("check", run / "result.json").out
