"""``dse parallel`` by the contract of a problem; strategies and problems of the contest have modules of their own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dse.algorithms.pairwise.problem import PairwiseProblem
from dse.parallel import all_strategies, all_strategies_view, contest, sharded
from dse.parallel.all_strategies import AllMetrics, AllQuestion, AllSolution
from dse.parallel.comparison import Rows, compared
from dse.parallel.formats import MetricsDocument, SolutionDocument
from dse.parallel.hybrid import strategy as hybrid
from dse.parallel.hybrid.formats import HybridMetrics, HybridSolution
from dse.parallel.hybrid.strategy import HybridQuestion
from dse.parallel.options import ParallelOptions, require_own
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.pipeline.formats import PipelineMetrics, PipelineSolution
from dse.parallel.pipeline.piper import KEYS as PIPER_KEYS
from dse.parallel.pipeline.question import PipelineQuestion
from dse.parallel.problem import ParallelProblem
from dse.parallel.stopped import mark_faults, marked, unmarked, with_mark
from dse.parallel.strategies import strategy_of
from dse.problem import Posed, ProblemType
from dse.report.view import View, noted
from dse.results.result import Result
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.describe import ModelPart, ModelSummary, merged, step_summary
from dse.sources.kinds import ProblemInput
from dse.sources.steps import STEP, step_of
from hardware.chips import chip_notes
from hardware.inputs import fail

AnyQuestion = ParallelProblem | PipelineQuestion | HybridQuestion | AllQuestion | PairwiseProblem
STEPS = replace(STEP, suffixes=(*STEP.suffixes, ".gz"), keys=(*STEP.keys, "problem", *PIPER_KEYS))
"""Steps, profiles of pipelines and problems of the contest."""

ParallelPosed = Posed[ParallelOptions, AnyQuestion]


class ParallelType(ProblemType[ParallelOptions, AnyQuestion]):
    """A training step on several devices."""

    name = "parallel"
    help = """Split the tensors of a training step over a mesh of devices, cut it into a pipeline, or both.

    STEP is a file of XLA's HLO (text or JSON) or StableHLO, or FILE.py:FUNCTION that returns a JAX function and the
    shapes of its arguments, or a PyTorch module and its inputs (docs/guides/shard-a-step.md). It can also be a problem
    of the IOPDDL contest (.json, .json.gz), which needs no mesh. A pipeline can also be cut from a profile of
    PipeDream or DAPPLE (text) or Piper (JSON).
    """
    examples = (
        "dse parallel tests/data/hlo/vgg-tiny.hlo --mesh data=2,model=2",
        "dse parallel docs/examples/step.py:step --mesh 8 --out runs/step",
        "dse parallel tests/data/hlo/vgg-tiny.hlo --strategy pipeline --mesh 16",
    )
    Options = ParallelOptions
    models = (STEPS,)
    forms = (
        (SolutionDocument, MetricsDocument),
        (PipelineSolution, PipelineMetrics),
        (HybridSolution, HybridMetrics),
        (AllSolution, AllMetrics),
    )
    steering = ("method", "checkpoint")
    unchecked = (contest.PASSES,)
    parallel = False

    def pose(self, options: ParallelOptions) -> ParallelPosed:
        """The step in the file that the options name, and the machine; or a problem of the contest."""
        given = contest.contest_problem(options.step)
        if given is not None:
            return contest.posed(options, given)
        require_own(options)
        if options.strategy == "all":
            return all_strategies.posed(options)
        if options.strategy == "hybrid":
            return hybrid.posed(options)
        if options.strategy == "pipeline":
            return pipeline.posed(options)
        if profiled_graph(options.step) is not None:
            rule = "must be pipeline, because a profile has no tensors to split"
            raise fail("dse parallel", "--strategy", options.strategy, rule)
        return sharded.posed(options)

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """The arrays and products of a step, the layers of a profile, or the choices of a problem of the contest."""
        del sequence
        name = Path(source.where).name.partition(".")[0]
        if (choices := contest.contest_problem(source.where)) is not None:
            kind = f"a problem of the IOPDDL contest: {len(choices.costs):,} nodes, {len(choices.edges):,} edges"
            return ModelSummary(name, kind, (), None, None)
        if (profile := profiled_graph(source.where)) is not None:
            parts = merged(ModelPart(each.label or each.name, size_bytes=each.weight_bytes) for each in profile.nodes)
            return ModelSummary(name, f"a profile of {len(profile.nodes):,} layers", parts, None, None)
        return step_summary(step_of(source))

    def answered_by(self, options: ParallelOptions) -> tuple[str, ...]:
        """The method that ``auto`` stands for."""
        if options.strategy in ("hybrid", "all"):
            return ("exact",)
        return (pipeline.method_of(options) if options.strategy == "pipeline" else sharded.method_of(options),)

    def answer(self, posed: ParallelPosed, run: Run) -> Result:
        """The best plan by the chosen method, with its proof or bound."""
        problem = posed.problem
        if isinstance(problem, PairwiseProblem):
            result = contest.answer(posed, problem, run)
        elif isinstance(problem, AllQuestion):
            result = all_strategies.answer(posed, problem, run)
        else:
            result = strategy_of(problem).answer(posed, problem, run)
        return marked(result, run.stop())

    def faults(self, result: Result, posed: ParallelPosed) -> list[str]:
        """The plan's own rules, its times and bytes; the bound is proven again."""
        return [*mark_faults(result), *self._strategy_faults(unmarked(result), posed)]

    def _strategy_faults(self, result: Result, posed: ParallelPosed) -> list[str]:
        problem = posed.problem
        if isinstance(problem, PairwiseProblem):
            return contest.faults(result, problem)
        if isinstance(problem, AllQuestion):
            return all_strategies.faults(result, problem)
        return strategy_of(problem).faults(result, posed.options, problem)

    def view(self, result: Result, posed: ParallelPosed, tables: Tables) -> View:
        """Tensors by their splits and collectives by kind and axis, or stages in time."""
        view = noted(self._strategy_view(unmarked(result), posed), chip_notes(posed.options.accelerator, posed.inputs))
        return with_mark(view, result)

    def _strategy_view(self, result: Result, posed: ParallelPosed) -> View:
        problem = posed.problem
        if isinstance(problem, PairwiseProblem):
            return contest.view(result, problem)
        if isinstance(problem, AllQuestion):
            return all_strategies_view.view(result, problem)
        return strategy_of(problem).view(result, problem)

    def compared(self, results: Sequence[Result]) -> Rows | None:
        """Of sharding, times, memory, bytes by collective, and what is split otherwise; of all else the usual rows."""
        results = [unmarked(each) for each in results]
        strategies = {each.settings.get("strategy", "sharding") for each in results}
        if strategies == {"all"}:
            return all_strategies_view.compared(results)
        # A problem of the contest has that strategy, too, and a solution of another form.
        is_contest = any("operations" not in each.solution for each in results if each.solution)
        is_sharding = strategies == {"sharding"} and not is_contest
        return compared(results) if is_sharding else None


PROBLEM = ParallelType()
