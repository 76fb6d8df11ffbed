"""Whether the policy of pipelines infers a convolutional network's after 10,000 more episodes on such profiles.

The paper fine-tunes its policy so (section 5.2.4). How much longer than the proven optimum is the best of 50 plans, as
they are, of VGG-19 and of the other steps of Table 7, on 2, 3 and 4 servers (A, B, C): of the packaged policy, and of a
run of ``dse pretrain pipeline --family tapering --start CHECKPOINT --samples 10000``. Means over ``--seeds``.
"""

from pathlib import Path

from benchmarks.parallel_episodes import CONFIGURATIONS, excess_on, steps
from benchmarks.recording import Record, Results, parser_of
from policies.learning.checkpoint import BEST
from policies.parallel.extra import ask_for_extra

CNN = "vgg19"

RECORD = Record(
    "parallel_finetuning",
    ("episodes",),
    {"main": ("policy", *(f"VGG-19 {each}" for each in CONFIGURATIONS), "other steps")},
)


def main() -> None:
    """A row before fine-tuning, and one after."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("run", type=Path, help="the directory of the run")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    ask_for_extra("benchmarks.parallel_finetuning", "RUN", str(asked.run))
    from policies.parallel.pipeline.methods import SHIPPED
    from policies.parallel.pipeline.policy import PIPELINE_POLICY

    of = dict(steps())
    groups = [{name: of.pop(name)} for name in (f"{CNN} {each}" for each in CONFIGURATIONS)]
    for policy, folder in (("packaged", SHIPPED), ("fine-tuned", asked.run / BEST)):
        excesses = [excess_on(group, folder, asked.seeds) for group in (*groups, of)]
        results.row("main", policy, *(f"{100 * each:.1f} %" for each in excesses))
    results.figure("episodes", f"{PIPELINE_POLICY.load(asked.run / BEST).provenance['samples']:,}")
    results.save(asked.record)


if __name__ == "__main__":
    main()
