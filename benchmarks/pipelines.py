"""Pipelines: how long the exact search takes, beside an enumeration of all cuts without any pruning.

``python -m benchmarks.pipelines [STEP …]``, by default ``t5-6`` and ``bert-48`` on four servers of eight V100, for the
batch of the Auto-MAP paper. ``--enumerate`` also enumerates every way to cut the points with eight devices a stage:
seconds for ``t5-6``, minutes for ``bert-48``. CPU seconds after the kernels are compiled, without reading the step.
"""

import argparse
import time

import numpy as np
from numba import njit

from dse.parallel.pipeline.cut_kernels import closing_s
from dse.parallel.pipeline.exact import Cases, server_cuts
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelinePlan
from dse.report.units import time_text
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of

PAPER_S = {"bert-48": 262, "t5-6": 198, "t5-3b": 262, "t5-11b": 280}
"""Of the paper's learner, on configuration C (Table 7)."""

TARGET_S = {"equal": 1.0, "near": 30.0, "free": 30.0}


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
        a0 = closing_s(case, 0, 0, one)
        for two in range(one + 1, points - 1):
            if variables[two] == variables[one]:
                continue
            f1, x1 = work[1, two] - work[1, one], send[1, two]
            drain1 = drain0 + back[1, two] - back[1, one] + x1
            exposed1 = max(0.0, a0, closing_s(case, 1, one, two) - drain0)
            first1, slow1 = f0 + f1 + 2 * (x0 + x1), max(f0, f1, 2 * x0, 2 * x1)
            for three in range(two + 1, points):
                if variables[three] == variables[two] or variables[three] == variables[points]:
                    continue
                plans += 1
                f2, x2 = work[2, three] - work[2, two], send[2, three]
                f3 = work[3, points] - work[3, three]
                drain2 = drain1 + back[2, three] - back[2, two] + x2
                exposed = max(exposed1, closing_s(case, 2, two, three) - drain1)
                exposed = max(exposed, closing_s(case, 3, three, points) - drain2)
                slowest = max(slow1, f2, f3, 2 * x2)
                seconds = first1 + f2 + f3 + 2 * x2 + (case.microbatches - 1) * slowest + exposed
                if seconds < best_s:
                    best_s, best = seconds, (one, two, three)
    return best_s, best, plans


def main() -> None:
    """Print a row for each step and way to cut the devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", default=["t5-6", "bert-48"])
    parser.add_argument("--enumerate", action="store_true")
    asked = parser.parse_args()
    warm = problem_of(PipelineTrial("t5-6", "A", "length", "near", "v100", "v100-ethernet"))
    exact(PipelineContext(warm, "near"))
    for step in asked.steps:
        for cutting in ("equal", "near", "free"):
            problem = problem_of(PipelineTrial(step, "C", "length", cutting, "v100", "v100-ethernet"))
            begun = time.process_time()
            answer = exact(PipelineContext(problem, cutting))
            seconds = time.process_time() - begun
            assert answer.bound_s >= answer.length_s * (1 - 1e-9), "not proven"
            print(
                f"{step}, {problem.profile.points:,} points, devices {cutting}: {time_text(answer.length_s)} at "
                f"{answer.plan.cuts} {answer.plan.device_cuts}, proven in {seconds:.2f} s of CPU (target "
                f"{TARGET_S[cutting]:g} s, the paper's learner {PAPER_S[step]} s)",
                flush=True,
            )
            if cutting == "equal" and asked.enumerate:
                case = Cases(problem).case(server_cuts(problem))
                begun = time.process_time()
                min_s, cuts, plans = enumerated(case)
                seconds = time.process_time() - begun
                same = np.isclose(min_s, answer.length_s, rtol=1e-9)
                assert np.isclose(length(problem, PipelinePlan(cuts, server_cuts(problem))).length_s, min_s)
                verdict = "as long" if same else "NOT AS LONG"
                print(f"    enumerated, {plans:,} plans: {verdict}, {seconds:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
