"""``dse partition`` by the contract of a problem."""

import math
from collections.abc import Mapping

from dse.partition.answer import BALANCED, PartitionPosed, answer, objective_of
from dse.partition.check_answer import answer_faults, stated_bound
from dse.partition.formats import MetricsDocument, SolutionDocument, graph_from_document
from dse.partition.graphs.source import GRAPH
from dse.partition.methods import LEARNED
from dse.partition.options import PartitionOptions, Question, question_of
from dse.partition.report import view
from dse.problem import Posed, ProblemType
from dse.report.view import View, noted
from dse.results.result import Result
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.describe import ModelPart, ModelSummary, merged
from dse.sources.kinds import ProblemInput
from hardware.chips import chip_notes
from hardware.inputs import fail

_WORK_S = {"portfolio": 20.0, "dp": 5.0, "cp-sat": 2.0, "lns": 8.0}
"""Approximate times of methods on one core; sampling takes less."""


class PartitionType(ProblemType[PartitionOptions, Question]):
    """Operators of a model over the chips of a multi-chip module."""

    name = "partition"
    help = """Assign a model's operators to the chips of a package, for throughput or latency, with a bound.

    GRAPH is a name from `dse models`, a YAML file of hyper-parameters, FILE.py:FUNCTION that returns a PyTorch module
    and example inputs, an ONNX file, a config.json of transformers, a step as HLO or StableHLO
    (docs/guides/shard-a-step.md), or a graph (dse.graph/1; docs/reference/formats.md).
    """
    examples = (
        "dse partition squeezenet --out runs/chiplets",
        "dse partition squeezenet --package mcm-8 --method greedy,refine",
        "dse partition bert-large --objective latency",
    )
    Options = PartitionOptions
    models = (GRAPH,)
    Solution = SolutionDocument
    Metrics = MetricsDocument
    unchecked = ("methods", "unfinished", "misfit", "solver")
    steering = ("method", "checkpoint", "samples")

    def pose(self, options: PartitionOptions) -> PartitionPosed:
        """The graph and the package that the options name."""
        methods = options.methods  # refuses an unknown one
        if options.checkpoint is not None and LEARNED not in methods:
            raise fail("dse partition", "--checkpoint", options.checkpoint, f"applies only to --method {LEARNED}")
        question = question_of(options)
        if options.evaluator == "simulator":
            question.evaluator(options.evaluator)  # refuses one without a package
        problem = question.problem
        return Posed(options, question, problem.graph.name, problem.document(), objective_of(problem))

    def predicted_s(self, posed: PartitionPosed) -> float:
        """The sum over the methods."""
        return sum(_WORK_S.get(name, 0.5) for name in posed.options.methods)

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its operators."""
        del sequence
        graph = graph_from_document(source.content, source.where)
        columns = zip(graph.names, graph.weight_bytes.tolist(), graph.flops.tolist(), strict=True)
        parts = merged(
            ModelPart(name, size_bytes=size or None, flops=None if math.isnan(flops) else flops)
            for name, size, flops in columns
        )
        stated = [part.flops for part in parts if part.flops is not None]
        kind = f"a graph of {len(graph):,} operators"
        return ModelSummary(graph.name, kind, parts, None, math.fsum(stated) if stated else None)

    def answered_by(self, options: PartitionOptions) -> tuple[str, ...]:
        """The methods of the options, their text where none has an answer, and equal shares of memory."""
        return tuple(dict.fromkeys((*options.methods, options.method, BALANCED)))

    def answer(self, posed: PartitionPosed, run: Run) -> Result:
        """The best partition of all methods, with the best bound."""
        return answer(posed, run)

    def faults(self, result: Result, posed: PartitionPosed) -> list[str]:
        """All that follows from the partition; a proof that nothing fits is repeated, and a bound if affordable."""
        return answer_faults(result, posed)

    def open_claims(self, result: Result, posed: PartitionPosed) -> Mapping[str, str]:
        """A bound that is neither proven nor refuted."""
        if result.bound is None or stated_bound(result, posed.problem.problem)[0] == "proven":
            return {}
        return {"bound": "recomputing the proof takes too long; no known partition beats the bound"}

    def view(self, result: Result, posed: PartitionPosed, tables: Tables) -> View:
        """Chips, links, methods and the graph."""
        return noted(view(posed.problem, result), chip_notes(posed.options.chip, posed.inputs))


PROBLEM = PartitionType()
