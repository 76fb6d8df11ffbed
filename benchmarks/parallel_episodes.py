"""What more episodes bring the policy of online inference: the curve of a run of ``dse pretrain pipeline``.

    python -m benchmarks.parallel_episodes RUN [--every 5] [--seeds 5] [--annotate] [--record]

By number of episodes, on generated problems that no training has seen: how much longer than the proven optimum is the
own plan of the policy, and the best of its 50 plans, as they are; geometric means. *Seen*: of the families that it
learned from; *not seen*: of the other families, whose problems are in the validation set too. *Steps*: the best of 50
plans on the steps of Table 7 and VGG-19, on 2, 3 and 4 servers, the mean over ``--seeds``; no training and no choice of
a checkpoint has seen them.

Every ``--every``-th checkpoint is in the table, and the chosen one, which is marked. With ``--annotate``, the card in
``RUN/best`` says first how good the policy is on what it has not seen.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.parallel_dqn import CUTTING, OBJECTIVES
from benchmarks.recording import Record, Results, parser_of
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelineProblem
from dse.reproduce.automap.models import PIPELINED
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from dse.reproduce.automap.published import Configuration
from dse.run.directory import JOURNAL_FILE
from dse.run.journal import Journal
from policies.learning.checkpoint import BEST
from policies.learning.scores import Score, geometric_mean
from policies.parallel.extra import ask_for_extra

COLUMNS = ("seen: own plan", "seen: best of 50", "not seen: own plan", "not seen: best of 50", "steps: best of 50")
RECORD = Record("parallel_episodes", ("episodes", "chosen", "steps", "validation"), {"main": ("episodes", *COLUMNS)})

CONFIGURATIONS: tuple[Configuration, ...] = ("A", "B", "C")

Steps = Mapping[str, tuple[PipelineProblem, float]]
"""Problems with their proven optima, by name."""


def steps() -> Steps:
    """Every step of Table 7, and VGG-19, on all configurations."""
    found = {}
    for step in PIPELINED:
        for configuration in CONFIGURATIONS:
            problem = problem_of(PipelineTrial(step, configuration, OBJECTIVES[4], CUTTING, "v100", "dapple"))
            found[f"{step} {configuration}"] = (problem, exact(PipelineContext(problem, CUTTING)).length_s)
    return found


def excess_of(score: Score, families: Sequence[str], name: str) -> tuple[float, float]:
    """(of the families that were learned from, of the others): how much longer plans are than the optimum, means."""
    values = score.values[name]
    seen = {key: value for key, value in values.items() if _family(key) in families}
    others = [value for key, value in values.items() if key not in seen]
    return 1 / geometric_mean(list(seen.values())) - 1, 1 / geometric_mean(others) - 1 if others else 0.0


def _family(name: str) -> str:
    """Of a validation problem."""
    first, _, rest = name.partition(" on ")
    return first if rest else "random"


def excess_on(of: Steps, folder: Path, seeds: int) -> float:
    """How much longer the best of 50 plans of a checkpoint is than the optimum, the mean over steps and seeds."""
    from policies.parallel.pipeline.policy import PIPELINE_POLICY, Policy

    policy = Policy(PIPELINE_POLICY.load(folder))
    return statistics.mean(
        policy.plans(problem, CUTTING, seed)[1].length_s / best_s - 1
        for problem, best_s in of.values()
        for seed in range(seeds)
    )


def main() -> None:
    """Print the curve."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("run", type=Path, help="the directory of the run")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--annotate", action="store_true")
    asked = parser.parse_args()
    ask_for_extra("benchmarks.parallel_episodes", "RUN", str(asked.run))
    from policies.parallel.pipeline.policy import PIPELINE_POLICY

    best = asked.run / BEST
    chosen = PIPELINE_POLICY.load(best)
    families, number = chosen.settings.families, chosen.provenance["number"]
    with Journal(asked.run / JOURNAL_FILE) as journal:
        scores = [Score.from_document(value) for key, value in journal.items() if key.startswith("checkpoint-")]
    unseen_steps = steps()
    for score in sorted(scores, key=lambda each: each.number):
        if score.number != number and score.number % asked.every:
            continue
        own, explored = (excess_of(score, families, name) for name in ("greedy", "explored"))
        on_steps = excess_on(unseen_steps, asked.run / "checkpoints" / f"{score.number:04}", asked.seeds)
        cells = (own[0], explored[0], own[1], explored[1], on_steps)
        mark = "**" if score.number == number else ""
        results.row("main", f"{mark}{score.samples:,}{mark}", *(f"{100 * each:.1f}" for each in cells))
        if score.number == number:
            results.figure("steps", f"{100 * on_steps:.1f} %")
            results.figure("validation", f"{100 * explored[1]:.1f} %")
            if asked.annotate:
                stated = {"own_plan": own[1], "best_of_50": explored[1], "best_of_50_on_unseen_steps": on_steps}
                PIPELINE_POLICY.annotate(best, {"out_of_family": {"longer_than_the_optimum_by": stated}})
    results.figure("episodes", f"{max(score.samples for score in scores):,}")
    results.figure("chosen", f"{chosen.provenance['samples']:,}")
    results.save(asked.record)


if __name__ == "__main__":
    main()
