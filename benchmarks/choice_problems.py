"""Choice problems at the size of real models: plans and bounds next to what the IOPDDL contest published.

``python -m benchmarks.choice_problems`` answers contest cases K, M and S, from the folder that ``--cases`` (or the
variable ``DSE_CASES``) names, and generated cases with a planted plan of known cost, the least
(:mod:`benchmarks.planted_cases`). Each row is a fresh process: reading, the first legal plan, and the search until
``--seconds`` have passed since it began, reading included. With ``--clock cpu`` these are seconds of CPU time of all
threads, for a machine that is busy; an idle one with two cores does more in as many seconds of wall time.

A case of several seeds ends with a row of medians, each with its range. With ``--record``, rows of cases that are not
asked for stay as they are.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.process import answer_of, peak_gb
from benchmarks.recording import Cell, Record, Results, parser_of
from tests.shared_data import CASES

FIRST_PLACE = {"K": 2_274_276_676, "M": 49_928_460_991, "S": 1_534_613_444}
"""Costs of the contest's first place, with eight cores and a limit of 180 s (K, M) or 240 s (S)."""

BEST_OF_TEN = {"K": 2_242_635_780, "M": 49_928_157_500, "S": 1_521_949_310}
"""The best of ten runs of the same program."""

LOWER_BOUND = {"K": 2_065_623_588, "M": 49_407_421_919, "S": 1_511_240_136}
"""Published with them."""

RECORD = Record(
    "choice_problems",
    ("planted_share", "planted_cpu", "planted_bound", "read_low", "read_high", "first_low", "first_high"),
    {
        "main": (
            "case",
            "seed",
            "nodes",
            "after contraction",
            "cost",
            "over first place, or the planted plan",
            "best of its ten runs",
            "bound over the published one, or the planted plan",
            "gap",
            "s to read",
            "s to the first legal plan, after reading",
            "GB",
            "CPU s",
        )
    },
)
"""``planted`` is the first of the generated cases."""


def one(path: str, seconds: str, seed: str, clock: str) -> dict[str, Any]:
    """One answer, measured in this process."""
    from dse.algorithms.pairwise.anytime import anytime, first_plan
    from dse.algorithms.pairwise.contraction import contracted
    from dse.algorithms.pairwise.evaluate import evaluate
    from dse.algorithms.pairwise.iopddl import read_problem

    now: Callable[[], float] = time.process_time if clock == "cpu" else time.monotonic
    limit_s, began, cpu = float(seconds), now(), time.process_time()
    problem = read_problem(path)
    read = now()
    small = contracted(problem)
    assert small is not None
    is_legal = first_plan(small).choices is not None
    first = now()

    def spent() -> float:
        return min(1.0, (now() - began) / limit_s)

    answer = anytime(small, int(seed), lambda: "time limit" if spent() >= 1 else None, spent)
    assert answer.choices is not None
    of = evaluate(problem, small.expand(answer.choices).tolist())
    assert of.is_feasible
    return {
        "nodes": problem.node_count,
        "left": len(small.costs),
        "cost": of.cost,
        "bound": answer.bound,
        "read_s": read - began,
        "first_s": first - read if is_legal else None,
        "peak_gb": peak_gb(),
        "cpu_s": time.process_time() - cpu,
    }


def row(case: str, seed: int, measured: dict[str, Any], against: int, bound: int, best: int) -> tuple[str, ...]:
    """A line of the table."""
    cost = measured["cost"]
    first_s = measured["first_s"]
    return (
        case,
        str(seed),
        f"{measured['nodes']:,}",
        f"{measured['left']:,}",
        f"{cost:,}",
        f"{cost / against:.4f}",
        f"{best / against:.4f}",
        f"{measured['bound'] / bound:.4f}",
        f"{100 * (1 - measured['bound'] / cost):.2f} %",
        f"{measured['read_s']:.1f}",
        "none" if first_s is None else f"{first_s:.1f}",
        f"{measured['peak_gb']:.2f}",
        f"{measured['cpu_s']:.0f}",
    )


def medians(rows: Sequence[Sequence[Cell]]) -> tuple[str, ...]:
    """A row with the median of each column of ``rows``, which differ in their seed, and its range in brackets."""
    cells = []
    for column in list(zip(*rows, strict=True))[2:]:
        texts = sorted(map(str, column), key=_number)
        middle = texts[(len(texts) - 1) // 2]
        cells.append(middle if texts[0] == texts[-1] else f"{middle} ({texts[0]} to {texts[-1]})")
    return str(rows[0][0]), f"median of {len(rows)}", *cells


def _number(text: str) -> float:
    return math.inf if text == "none" else float(text.replace(",", "").removesuffix(" %"))


def _measured(path: Path, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    return answer_of("benchmarks.choice_problems", "--one", path, arguments.seconds, seed, arguments.clock)


def _contest(results: Results, case: str, arguments: argparse.Namespace) -> None:
    """The rows of a case of the contest."""
    path = Path(arguments.cases or "") / "iopddl" / f"asplos-2025-iopddl-{case}.json.gz"
    if not path.exists():
        print(f"{case}: {path} is not there (--cases)")
        return
    published = FIRST_PLACE[case], LOWER_BOUND[case], BEST_OF_TEN[case]
    rows = []
    for seed in range(arguments.seeds):
        rows.append(row(case, seed, _measured(path, seed, arguments), *published))
        results.row("main", *rows[-1])
    if len(rows) > 1:
        results.row("main", *medians(rows))


def _planted(results: Results, nodes: int, arguments: argparse.Namespace) -> None:
    """The row of a generated case."""
    from benchmarks.planted_cases import planted_case
    from dse.algorithms.pairwise.iopddl import write_problem

    with tempfile.TemporaryDirectory() as folder:
        problem, _, cost = planted_case(0, nodes)
        path = Path(folder) / "case.json.gz"
        write_problem(problem, path)
        measured = _measured(path, 0, arguments)
    results.row("main", *row(f"planted, {nodes:,}", 0, measured, cost, cost, cost))
    if nodes == arguments.planted[0]:
        results.figure("planted_share", f"{100 * (measured['cost'] / cost - 1):.2g} %")
        results.figure("planted_bound", f"{100 * (1 - measured['bound'] / cost):.2g} %")
        results.figure("planted_cpu", f"{measured['cpu_s']:.0f} s")


def main(arguments: argparse.Namespace) -> None:
    """The table, line by line."""
    results = Results(RECORD)
    before = RECORD.rows("main") if arguments.record else []
    for case in FIRST_PLACE:
        if case in arguments.contest:
            _contest(results, case, arguments)
        for kept in before:
            if case not in arguments.contest and kept[0] == case:
                results.row("main", *kept)
    for nodes in arguments.planted:
        _planted(results, nodes, arguments)
    if not arguments.planted and before:
        for kept in before:
            if str(kept[0]).startswith("planted"):
                results.row("main", *kept)
        for figure, value in RECORD.values().items():
            if figure.startswith("planted"):
                results.figure(figure, value)
    single = [each for each in results.rows["main"] if each[0] in FIRST_PLACE and str(each[1]).isdigit()]
    for name, column in (("read", "s to read"), ("first", "s to the first legal plan, after reading")):
        place = RECORD.tables["main"].index(column)
        known = sorted((str(each[place]) for each in single if each[place] != "none"), key=_number)
        results.figure(f"{name}_low", known[0])
        results.figure(f"{name}_high", f"{known[-1]} s")
    results.save(arguments.record)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(*sys.argv[2:])))
    else:
        parser = parser_of(__doc__)
        parser.add_argument("--cases", default=os.environ.get(CASES))
        parser.add_argument("--contest", default="KMS", help="letters of contest cases [KMS]")
        parser.add_argument("--planted", type=int, nargs="*", default=[30_000, 65_000], help="nodes of generated cases")
        parser.add_argument("--seconds", type=float, default=180.0)
        parser.add_argument("--seeds", type=int, default=5)
        parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
        main(parser.parse_args())
