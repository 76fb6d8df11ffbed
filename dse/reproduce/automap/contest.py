"""Tables 5 to 7 once more: learned plans next to the proven ones, and next to search without learning that begins with
equally many plans.

Training comes from above, where the extra ``learn`` is installed (:class:`~dse.reproduce.automap.convergence.Learned`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

from dse.reproduce.automap.convergence import Learned
from dse.reproduce.automap.models import title_of
from dse.reproduce.automap.pipelines import PipelineTrial, pipeline_trials
from dse.reproduce.automap.study import Study, Trial
from dse.reproduce.section import Comparison, Row, Section, Table
from dse.reproduce.trials import finished
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, percent

TITLE = "Tables 5 to 7: deep Q-learning compared with exact search and with search without learning"

NOT_IMPROVED = ", not improved"
"""Of the name of a method: its plans as they are, without the greedy one."""

_BEGUN = ("dqn", "random", "annealing")

METHODS = (*_BEGUN, "greedy", *(f"{name}{NOT_IMPROVED}" for name in _BEGUN))
"""The first three are each next to the plan of the fourth; in pipelines all of these are improved cut by cut."""

TARGET = 0.01
"""The most that a plan of deep Q-learning is meant to be behind the proven one."""


class ContestTrial(NamedTuple):
    """All methods on one row with one seed: of ``operators`` or of ``pipelines``; the other one is None.

    Attributes:
        operators: a step, with the machine.
        pipelines: a step, with the machine.
        decided: what an operator trial splits: trained tensors (Table 5) or inputs (Table 6).
        rounds: of training.
        seed: of training and of all other searches.
    """

    operators: Trial | None
    pipelines: PipelineTrial | None
    decided: Literal["variables", "inputs"]
    rounds: int
    seed: int

    @property
    def key(self) -> str:
        """In the journal, without the seed."""
        if self.pipelines is not None:
            return f"contest {self.pipelines.step} {self.pipelines.configuration} {self.rounds}"
        assert self.operators is not None
        return f"contest {self.operators.step} {self.decided} {self.rounds}"


@dataclass(frozen=True)
class Entry:
    """A method with one seed.

    Attributes:
        value: seconds of a batch, or dimensions split; None without a plan.
        plans: that it priced or tried, those of its improvement and the greedy one's included.
        cpu_s: CPU seconds for all of these.
    """

    value: float | None
    plans: int
    cpu_s: float


@dataclass(frozen=True)
class Contest:
    """A row of the tables: what is proven, and what each method gave, by seed; ``sense`` says what is better."""

    best: float
    entries: Mapping[str, Sequence[Entry]]
    sense: Literal["min", "max"] = "min"

    def behind(self, method: str) -> list[float]:
        """By how much its plans are behind the proven one, as shares of it; infinite without a plan.

        Raises:
            FailedCheckError: a plan is better than what is proven.
        """
        return [_behind(self.best, each.value, self.sense) for each in self.entries[method]]


def _behind(best: float, value: float | None, sense: Literal["min", "max"]) -> float:
    """By how much a plan takes longer than the best one, or splits fewer dimensions; as a share of the best."""
    if value is None:
        return float("inf")
    worse = value - best if sense == "min" else best - value
    if worse < -PROOF_TOLERANCE * best:
        raise FailedCheckError(f"a plan of {value:g} must not be better than the proven optimum {best:g}")
    return max(0.0, worse) / best if best else 0.0


def contest(study: Study, learned: Learned, rounds: int, seeds: int) -> Section:
    """One table for pipelines, one for split dimensions."""
    tables, comparisons = list[Table](), list[Comparison]()
    pipelines = _pipelines(study, learned, rounds, seeds)
    operators = _operators(study, learned, rounds, seeds)
    for title, of in (("Table 7", pipelines), ("Tables 5 and 6", operators)):
        if of:
            tables.append(Table((title, *METHODS), tuple(_row(name, each) for name, each in of.items())))
            headers = (f"{title}: plans / CPU s", *METHODS)
            tables.append(Table(headers, tuple(_costs(name, each) for name, each in of.items())))
            comparisons += _comparisons(of)
    if not tables:
        reason = "none of --models is in these tables, or --mesh has several axes"
        return Section("contest", TITLE, (), (reason,), skipped=reason)
    within = [max(each.behind("dqn")) <= TARGET for each in (*pipelines.values(), *operators.values())]
    notes = (
        f"Distance to the proven optimum, median / worst of {seeds} seed{'s' if seeds > 1 else ''}: longer time, or "
        f"fewer split dimensions. All dqn seeds are within {percent(TARGET)} in {sum(within)} of {len(within)} rows.",
        f"dqn: dse parallel --method dqn with {rounds} training rounds (--rounds; dse parallel uses 200 for pipelines "
        "and 60 for operators); it returns the better of the learned plan (dqn, not improved) and the greedy plan. "
        "random and annealing evaluate as many plans as the training with the same seed, and also the greedy plan. "
        "For pipelines, each method runs two searches, as dqn runs two trainings. Except for the methods that are not "
        "improved, local search then improves the shortest plans, as in dse parallel; it evaluates many more plans, "
        "and not equally many for each method. Random search discards a plan at the first conflict; greedy and "
        "annealing skip excluded decisions.",
        "Plans: all plans that a method evaluates or tries. CPU s: the total time for these. Both are medians over "
        "seeds and include local search and the greedy plan where a method uses them.",
        "The reference is the optimum proven by exact search; Tables 5 to 7 show its seconds.",
    )
    return Section("contest", TITLE, tuple(tables), notes, tuple(comparisons))


def _pipelines(study: Study, learned: Learned, rounds: int, seeds: int) -> dict[str, Contest]:
    """Every row of Table 7."""
    machine = (study.machine.accelerator, study.machine.network)
    trials = pipeline_trials(study.pipelined, ("A", "B", "C"), ("length",), machine)
    proven = study.pipelines(("length",))
    made = _made(study, learned, [ContestTrial(None, each, "variables", rounds, 0) for each in trials], seeds)
    return {
        f"{title_of(trial.step)} on {trial.configuration}": Contest(
            proven[trial.step, trial.configuration]["length"].best.length_s, entries
        )
        for trial, entries in zip(trials, made, strict=True)
    }


def _operators(study: Study, learned: Learned, rounds: int, seeds: int) -> dict[str, Contest]:
    """Every row of Tables 5 and 6; the network splits over one axis of several devices."""
    if sum(axis.size > 1 for axis in study.mesh.axes) != 1:
        return {}
    decisions: tuple[Literal["variables", "inputs"], ...] = ("variables", "inputs")
    trials = [
        ContestTrial(Trial(step, "count", study.machine, study.run.seed), None, decided, rounds, 0)
        for decided in decisions
        for step in study.steps
    ]
    made = _made(study, learned, trials, seeds)
    return {
        f"{title_of(trial.operators.step)}, {trial.decided}": Contest(_proven(entries), entries, "max")
        for trial, entries in zip(trials, made, strict=True)
        if trial.operators is not None
    }


def _proven(entries: Mapping[str, Sequence[Entry]]) -> float:
    value = entries["exact"][0].value
    if value is None:
        raise FailedCheckError("the exact search must have an optimum")
    return value


def _made(study: Study, learned: Learned, trials: Sequence[ContestTrial], seeds: int) -> list[dict[str, list[Entry]]]:
    """Of each trial the entries of all seeds, by method.

    Raises:
        StoppedError: the run was stopped; what is finished is in the journal.
    """
    every = [each._replace(seed=study.run.seed + seed) for each in trials for seed in range(seeds)]
    values, failed = finished(
        study.run, "contest", learned.contest, {each: f"{each.key} {each.seed}" for each in every}
    )
    if failed:
        raise RuntimeError("; ".join(failed.values()))
    rows = []
    for first in range(0, len(every), seeds):
        of: list[dict[str, Any]] = [values[each] for each in every[first : first + seeds]]
        rows.append({name: [Entry(**each[name]) for each in of] for name in of[0]})
    return rows


def _row(name: str, of: Contest) -> Row:
    cells = []
    for method in METHODS:
        behind = of.behind(method)
        cells.append(f"{_share(median(behind))} / {_share(max(behind))}")
    return (name, *cells)


def _costs(name: str, of: Contest) -> Row:
    """What each method priced and took, medians."""
    plans = (median(each.plans for each in of.entries[method]) for method in METHODS)
    spent_s = (median(each.cpu_s for each in of.entries[method]) for method in METHODS)
    return (name, *(f"{count:,.0f} / {seconds:.2f}" for count, seconds in zip(plans, spent_s, strict=True)))


def _share(behind: float) -> str:
    return "no plan" if behind == float("inf") else percent(behind)


def _comparisons(rows: Mapping[str, Contest]) -> list[Comparison]:
    compared = []
    for name, of in rows.items():
        for method in METHODS:
            behind = of.behind(method)
            for quantity, value in (("median", median(behind)), ("worst", max(behind))):
                ours = None if value == float("inf") else value
                compared.append(Comparison(name, method, f"distance to the proven optimum, {quantity}", "", ours, None))
    return compared
