"""Pipelines: how long the exact search takes, compared with an enumeration of all cuts without any pruning.

BERT-48 and T5 of 6 + 6 layers on four servers of eight V100, for the batch of the Auto-MAP paper; a cell has CPU
seconds, after the kernels are compiled and the step is read, and the length of the proven plan. Targets: a second with
equal stages, 30 s otherwise. ``--enumerate STEP`` also enumerates every way to cut the points with eight devices a
stage: seconds for ``t5-6``, minutes for ``bert-48``.
"""

import time

import numpy as np
from numba import njit

from benchmarks.recording import Record, Results, parser_of
from dse.parallel.pipeline.cut_kernels import stage_closing_s
from dse.parallel.pipeline.exact import Answer, Cases, server_cuts
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.report.units import time_text
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of

PAPER_S = {"bert-48": 262, "t5-6": 198, "t5-3b": 262, "t5-11b": 280}
"""Of the paper's learner, on configuration C (Table 7)."""

STEPS = ("bert-48", "t5-6")
CUTTINGS = {"equal": "eight each", "near": "within 3", "free": "free"}
RECORD = Record(
    "pipelines",
    ("points.bert", "points.t5", "plans", "enumerated"),
    {"main": ("devices of the stages", "BERT-48", "T5, 6 + 6 layers")},
)


@njit(cache=True)
def enumerated(case):
    """The shortest plan of four stages, of all of them: (seconds, cuts, plans)."""
    points = case.work_s.shape[1] - 1
    best_s, best, plans = np.inf, (0, 0, 0), 0
    work, back, send, variables = case.work_s, case.backward_s, case.send_s, case.variables
    for one in range(1, points - 2):
        if variables[one] == 0:
            continue
        f0, x0, drain0 = work[0, one], send[0, one], back[0, one] + send[0, one]
        a0 = stage_closing_s(case, 0, 0, one)
        for two in range(one + 1, points - 1):
            if variables[two] == variables[one]:
                continue
            f1, x1 = work[1, two] - work[1, one], send[1, two]
            drain1 = drain0 + back[1, two] - back[1, one] + x1
            exposed1 = max(0.0, a0, stage_closing_s(case, 1, one, two) - drain0)
            first1, slow1 = f0 + f1 + 2 * (x0 + x1), max(f0, f1, 2 * x0, 2 * x1)
            for three in range(two + 1, points):
                if variables[three] == variables[two] or variables[three] == variables[points]:
                    continue
                plans += 1
                f2, x2 = work[2, three] - work[2, two], send[2, three]
                f3 = work[3, points] - work[3, three]
                drain2 = drain1 + back[2, three] - back[2, two] + x2
                exposed = max(exposed1, stage_closing_s(case, 2, two, three) - drain1)
                exposed = max(exposed, stage_closing_s(case, 3, three, points) - drain2)
                slowest = max(slow1, f2, f3, 2 * x2)
                seconds = first1 + f2 + f3 + 2 * x2 + (case.microbatches - 1) * slowest + exposed
                if seconds < best_s:
                    best_s, best = seconds, (one, two, three)
    return best_s, best, plans


def measured(problem: PipelineProblem, cutting: str) -> tuple[Answer, float]:
    """The exact plan, which is proven, and its CPU seconds."""
    begun = time.process_time()
    answer = exact(PipelineContext(problem, cutting))
    seconds = time.process_time() - begun
    assert answer.bound_s >= answer.length_s * (1 - 1e-9), "not proven"
    return answer, seconds


def main() -> None:
    """Print a row for each way to cut the devices."""
    parser = parser_of(__doc__)
    parser.add_argument("--enumerate", action="append", choices=PAPER_S, default=[], metavar="STEP")
    asked, results = parser.parse_args(), Results(RECORD)
    warm = problem_of(PipelineTrial("t5-6", "C", "length", "equal", "v100", "v100-ethernet"))
    exact(PipelineContext(warm, "equal"))
    for cutting, name in CUTTINGS.items():
        cells = []
        for step in STEPS:
            problem = problem_of(PipelineTrial(step, "C", "length", cutting, "v100", "v100-ethernet"))
            answer, seconds = measured(problem, cutting)
            cells.append(f"{seconds:.2f} s, {time_text(answer.length_s)}")
            if cutting == "equal":
                results.figure(f"points.{step.partition('-')[0]}", f"{problem.profile.points:,}")
                if step in asked.enumerate:
                    plans, enumerated_s = enumerate_all(problem, answer)
                    results.figure("plans", f"{plans:,}")
                    results.figure("enumerated", f"{enumerated_s:.1f} s")
        results.row("main", name, *cells)
    results.row("main", "the paper's learner", *(f"{PAPER_S[step]} s" for step in STEPS))
    results.save(asked.record)


def enumerate_all(problem: PipelineProblem, answer: Answer) -> tuple[int, float]:
    """(Plans, CPU seconds) of all ways to cut; the shortest of them has to be as long as the exact plan."""
    case = Cases(problem).case(server_cuts(problem))
    begun = time.process_time()
    min_s, cuts, plans = enumerated(case)
    seconds = time.process_time() - begun
    assert np.isclose(length(problem, PipelinePlan(cuts, server_cuts(problem))).length_s, min_s)
    assert np.isclose(min_s, answer.length_s, rtol=1e-9)
    return plans, seconds


if __name__ == "__main__":
    main()
