"""Rollouts and learning of the partitioner: our form on RLlib next to the stock one, in the same process.

Target: ours ≥ 5 times as many samples per second, rollouts and learning together, on graphs of about 200 operators.

The same in both: the graphs (mobilenet-v3-large, shufflenet-v1 and hifi-gan of the catalogue: 187, 203 and 209
operators) on ``mcm-36``, in sequence; GraphSAGE of the same depth and width on the same features, with a logit
for each of 36 chips and no prior; one pass; FIX in random order; the reference evaluator; rollouts, epochs and
minibatches of an iteration; Adam; one process and one thread, without Ray's actors.

What differs is the form. *Ours*: an observation is the number of a graph, so that a graph is encoded once for all its
rollouts; the chips of all operators are one batched distribution; solver and evaluator are called once for a graph's
rollouts. There is no critic, and what is learned in addition to the ratio (elite imitation) is part of its time.
*Stock*: a Gymnasium environment of one step, whose observation holds features and edges, padded to the largest graph of
the set (209 operators; once also to 720, the largest of the training graphs, as one policy for all of them needs); a
MultiDiscrete action with RLlib's distribution for it; SingleAgentEnvRunner with as many environments as an iteration
has rollouts, so that the network draws for all at once; PPO's own learner with its connectors (one adds a step to each
episode: twice the rows), critic, divergence term and generalised advantages. Its rows are joined to one graph for the
network, without a loop over rows.

A sample is one candidate drawn, repaired, priced and learned from.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from benchmarks.recording import Record, Results, parser_of

GRAPHS = ("mobilenet-v3-large", "shufflenet-v1", "hifi-gan")
LARGEST_OF_TRAINING = 720, 942
"""Operators and edges of gru-forecast, the largest of the 66 training graphs."""

PACKAGE = "mcm-36"
TARGET = 5.0
WARM = 1
"""Iterations before those that are timed: kernels are loaded, and RLlib's pipelines built."""

RECORD = Record(
    "learning_speed",
    ("samples", "rollouts", "padded"),
    {
        "main": (
            "rollouts",
            "minibatches",
            "epochs",
            "form",
            "rollouts/s",
            "learned/s",
            "together/s",
            "ours is faster by",
        )
    },
)


@dataclass(frozen=True)
class Rates:
    """Samples per second: of rollouts, of learning, of both."""

    rollout: float
    learning: float
    together: float


def main() -> None:
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--repeats", type=int, default=3, help="iterations timed; the median counts")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    warnings.filterwarnings("ignore", message=".*Overriding environment")
    from policies.partition.graph_store import GraphStore
    from policies.partition.settings import LearningSettings
    from policies.partition.training_graphs import stored_graphs

    store = GraphStore(stored_graphs(GRAPHS, (PACKAGE,)))
    sizes = [(len(graph.problem.graph), len(graph.problem.graph.edges)) for graph in store.graphs]
    of_set = max(size for size, _ in sizes), max(edges for _, edges in sizes)
    ours = LearningSettings(head="categorical", prior="none", order="random", graphs=len(GRAPHS))
    print(f"{ours.layers} × {ours.width}; medians of {repeats} iterations; a rate: samples a second")
    of_own_set, padded = [], []
    papers = replace(ours, rollouts=20, minibatches=4, epochs=10)
    for settings, paddings in ((ours, (of_set, LARGEST_OF_TRAINING)), (papers, (of_set,))):
        own = rates(*our_form(store, settings), repeats)
        show(results, settings, "ours", own, own)
        for padding in paddings:
            stock = rates(*stock_form(store, settings, *padding), repeats)
            faster = show(results, settings, f"stock, padded to {padding[0]}", stock, own)
            (of_own_set if padding == of_set else padded).append(faster)
    rollouts, _, together = zip(*of_own_set, strict=True)
    results.figure("samples", f"{min(together):.0f} to {max(together):.0f} times")
    results.figure("rollouts", f"{min(rollouts):.1f} to {max(rollouts):.1f} times")
    results.figure("padded", f"{padded[0][2]:.0f} times")
    results.save(arguments.record)


def rates(roll_out: Callable[[], list], learn: Callable[[list], None], repeats: int) -> Rates:
    """Medians over ``repeats`` iterations."""
    samples = []
    for turn in range(WARM + repeats):
        begun = time.process_time()
        episodes = roll_out()
        rolled = time.process_time()
        learn(episodes)
        ended = time.process_time()
        count = len(episodes)
        if turn >= WARM:
            samples.append((count / (rolled - begun), count / (ended - rolled), count / (ended - begun)))
    return Rates(*(statistics.median(column) for column in zip(*samples, strict=True)))


def show(results: Results, settings, form: str, measured: Rates, own: Rates) -> list[float]:
    """One row; how much faster ours is at each."""
    pairs: Iterable[tuple[float, float]] = (
        (own.rollout, measured.rollout),
        (own.learning, measured.learning),
        (own.together, measured.together),
    )
    faster = [ours / theirs for ours, theirs in pairs]
    comparison = ""
    if measured is not own:
        verdict = "reached" if faster[2] >= TARGET else "missed"
        comparison = f"{faster[0]:.1f}, {faster[1]:.1f}, {faster[2]:.1f} times (target {TARGET:g}: {verdict})"
    cells = [f"{rate:,.1f}" for rate in (measured.rollout, measured.learning, measured.together)]
    sizes = (settings.rollouts, settings.minibatches, settings.epochs)
    results.row("main", *sizes, form, *cells, comparison)
    return faster


def our_form(store, settings):
    """(rollouts of one iteration, learning from them) as pretraining does it."""
    from policies.partition.training import PartitionTraining

    training = PartitionTraining(store, settings, seed=0)

    def roll_out():
        groups = (training.candidates(settings.rollouts) for _ in range(settings.graphs))
        return [episode for group in groups for episode in group]

    def learn(episodes):
        training.update(episodes)

    return roll_out, learn


def stock_form(store, settings, max_operators: int, max_edges: int):
    """The same with RLlib's own runner, distribution and learner; graphs are padded to so many operators and edges."""
    import torch
    from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from benchmarks.stock_rllib import stock_config

    torch.set_num_threads(1)
    rows = settings.rollouts * settings.graphs
    config = stock_config(store, settings, max_operators, max_edges)
    runner = SingleAgentEnvRunner(config=config)
    learner = config.build_learner(spaces=runner.get_spaces())

    def share():
        runner.set_state({COMPONENT_RL_MODULE: {DEFAULT_MODULE_ID: learner.module[DEFAULT_MODULE_ID].get_state()}})

    def roll_out():
        episodes = runner.sample(num_episodes=rows)
        runner.get_metrics()
        return episodes

    def learn(episodes):
        learner.update(
            episodes=episodes,
            num_epochs=settings.epochs,
            minibatch_size=max(1, rows // settings.minibatches),
            shuffle_batch_per_epoch=True,
        )
        share()

    share()
    return roll_out, learn


if __name__ == "__main__":
    main()
