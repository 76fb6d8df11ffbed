"""Methods by name, several methods beside each other, and what they evaluated."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dse.partition.check import cost_s, violations
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.methods import METHODS, methods_of
from dse.partition.options import PartitionOptions, Question
from dse.partition.problem import PartitionProblem
from dse.partition.report import view
from dse.partition.samples import RecordedEvaluator, RecordingExecutor, SampleRecorder, sample_log
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.tables import method_rows, notes
from dse.problem import problem_type
from dse.report.render import page
from dse.results.session import finished_result
from dse.run.directory import RESULT_FILE, RunDirectory
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from hardware.inputs import InputError
from hardware.packages import package
from tests.partition.small import LINK_BYTES_PER_S, random_graph, random_problem, valid_partitions
from tests.solving import answer

PROBLEM = PartitionProblem(random_graph(4, 25, 0.12), 5, LINK_BYTES_PER_S)
OPEN = PartitionProblem(random_graph(3, 18, 0.15), 5, LINK_BYTES_PER_S)
"""A smaller one, whose optimum the portfolio does not prove either: it goes through all that it consists of."""
SAMPLING = ("random", "anneal", "hill-climb")


def context_of(problem, **changes):
    given = {"evaluator": AnalyticalEvaluator(problem), "executor": InProcessExecutor(), "samples": 80}
    return SearchContext(problem, **(given | changes))


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_finds_valid_partitions_by_seed_and_more_samples_are_no_worse(name):
    method = METHODS[name]
    found = method(context_of(PROBLEM))
    assert violations(PROBLEM, found.chip) == []
    assert found.cost_s == pytest.approx(cost_s(PROBLEM, found.chip), rel=1e-12)
    assert found.evaluations == 80
    assert method(context_of(PROBLEM)) == found
    assert method(context_of(PROBLEM, seed=1)).chip != found.chip
    one_s = method(context_of(PROBLEM, samples=1)).cost_s
    assert found.cost_s < one_s


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_reaches_the_best_of_a_small_problem(name):
    problem = random_problem(7, 6, 3)
    best_s = min(cost_s(problem, chip) for chip in valid_partitions(problem))
    found = METHODS[name](context_of(problem, samples=600))
    assert found.cost_s == pytest.approx(best_s, rel=1e-9)


def test_methods_are_run_in_the_order_of_their_names():
    assert list(methods_of("greedy, random")) == ["greedy", "random"]
    assert list(methods_of("all")) == list(METHODS)


@pytest.mark.parametrize(("text", "words"), [("randon", "random"), ("", "no method"), ("greedy,", "no method")])
def test_unknown_names_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        methods_of(text)


def test_several_methods_are_compared_and_the_best_is_the_answer(few_steps):
    options = PartitionOptions("given", method="random,portfolio,greedy", samples=20)
    result = answer(options, problem=Question(OPEN, None))
    rows = {row["method"]: row for row in result.metrics["methods"]}
    assert list(rows) == ["random", "portfolio", "greedy"]
    assert result.objective.value == max(row["value"] for row in rows.values())
    assert result.bound == min(row["bound"] for row in rows.values())
    assert result.evaluations == sum(row["evaluations"] for row in rows.values())
    assert result.method == next(name for name, row in rows.items() if row["value"] == result.objective.value)
    single = answer(replace(options, method="greedy"), problem=Question(OPEN, None))
    assert rows["greedy"]["value"] == single.objective.value
    assert "methods" not in single.metrics
    shown = page(view(Question(OPEN, None), result), result.provenance)
    for row in method_rows(result):
        assert row[0] in shown
        assert row[1] in shown


def test_methods_that_were_not_begun_have_no_row():
    reasons = []

    def late(context):
        reasons.append("time limit")
        return METHODS["random"](context)

    options = PartitionOptions("given", method="greedy,random,anneal", samples=5)
    given = {**METHODS, "random": late}
    result = answer(options, problem=Question(PROBLEM, None), stop=lambda: next(iter(reasons), None), methods=given)
    assert [row["method"] for row in result.metrics["methods"]] == ["greedy", "random"]
    assert result.status == "feasible"


def test_a_method_without_a_partition_has_a_row_without_value():
    given = {**METHODS, "random": lambda _context: SearchResult(evaluations=3)}
    options = PartitionOptions("given", method="random,greedy")
    result = answer(options, problem=Question(PROBLEM, None), methods=given)
    assert result.method == "greedy"
    assert [row[0] for row in method_rows(result)] == ["random: no partition found", "greedy"]
    assert result.metrics["methods"][0]["value"] is None


def test_a_method_that_has_ended_is_not_run_again_and_one_that_was_stopped_is(tmp_path):
    """As a run that is interrupted in its second method, and then continued."""
    reasons, runs = ["interrupted"], []

    def counted(name):
        def method(context):
            runs.append(name)
            return METHODS[name](context)

        return method

    def stop():
        return reasons[0] if reasons and "random" in runs else None

    def asked(journal):
        return answer(options, problem=Question(PROBLEM, None), stop=stop, methods=given, journal=journal)

    options = PartitionOptions("given", method="greedy,random,anneal", samples=50)
    given = {name: counted(name) for name in METHODS}
    with Journal(tmp_path / "journal") as journal:
        assert asked(journal).status == "interrupted"
    reasons.clear()
    with Journal(tmp_path / "journal") as journal:
        ended = asked(journal)
    assert runs == ["greedy", "random", "random", "anneal"]
    whole = answer(options, problem=Question(PROBLEM, None))
    assert ended.solution == whole.solution
    assert ended.evaluations == whole.evaluations
    assert [row[:2] for row in method_rows(ended)] == [row[:2] for row in method_rows(whole)]


def test_unfinished_methods_are_named_beside_a_proven_answer(tmp_path):
    """Ctrl-C in the second of three methods, after the first has proved its partition optimal."""
    reasons = []

    def late(context):
        reasons.append("interrupted")
        return METHODS["random"](context)

    problem = PartitionProblem(random_graph(1, 5, 0.3), 2, LINK_BYTES_PER_S)
    options = PartitionOptions("given", method="portfolio,random,greedy", samples=50)
    given = {**METHODS, "random": late}
    with Journal(tmp_path / "journal") as journal:
        result = answer(
            options,
            problem=Question(problem, None),
            stop=lambda: next(iter(reasons), None),
            methods=given,
            journal=journal,
        )
        assert list(journal) == ["portfolio"]
    assert result.status == "optimal"
    assert result.metrics["unfinished"] == ["random", "greedy"]
    assert [row[0] for row in method_rows(result)] == ["portfolio", "random (stopped)"]
    assert notes(result)[0] == "stopped early or not started: random, greedy"
    path = tmp_path / "run"
    directory = RunDirectory(path, "partition", {}, "", resume=False)
    directory.write(RESULT_FILE, result.to_json())
    assert finished_result(directory, problem_type("partition")) is None


def test_a_damaged_journal_is_named(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        journal.append("greedy", {})
        options = PartitionOptions("given", method="greedy")
        with pytest.raises(InputError, match="journal: line 1: is not a finished evaluation"):
            answer(options, problem=Question(PROBLEM, None), journal=journal)


def test_a_method_without_a_partition_is_journalled(tmp_path):
    options = PartitionOptions("given", method="random,greedy")
    for found in (SearchResult(evaluations=3), None):
        # The second time nothing is called.
        given = {**METHODS, "random": lambda _context, found=found: found}
        with Journal(tmp_path / "journal") as journal:
            result = answer(options, problem=Question(PROBLEM, None), methods=given, journal=journal)
        assert result.metrics["methods"][0]["value"] is None
        assert result.method == "greedy"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_every_distinct_partition_that_was_priced_is_written_once(tmp_path, objective):
    problem = replace(random_problem(7, 6, 3), objective=objective)
    written = str(tmp_path / "s.jsonl")
    options = PartitionOptions("given", method="random", samples=2000, objective=objective, emit_samples=written)
    result = answer(options, problem=Question(problem, None))
    lines = lines_of(tmp_path / "s.jsonl")
    found = [tuple(line["chip"][name] for name in problem.graph.names) for line in lines]
    assert len(set(found)) == len(found)
    assert set(found) == valid_partitions(problem)
    key = "throughput_per_s" if objective == "throughput" else "latency_s"
    values = [line[key] for line in lines]
    costs = [cost_s(problem, chip) for chip in found]
    assert values == pytest.approx([1 / cost for cost in costs] if objective == "throughput" else costs)
    assert result.objective.value == (max(values) if objective == "throughput" else min(values))


def test_a_partition_that_does_not_fit_memory_is_not_written(tmp_path):
    problem = random_problem(7, 6, 3)
    limited = replace(problem, memory_bytes=0.6 * float(problem.graph.weight_bytes.sum()))
    options = PartitionOptions("given", method="random", samples=2000, emit_samples=str(tmp_path / "s.jsonl"))
    answer(options, problem=Question(limited, None))
    found = {tuple(line["chip"].values()) for line in lines_of(tmp_path / "s.jsonl")}
    assert found == valid_partitions(limited)
    assert found < valid_partitions(problem)


@pytest.mark.parametrize("name", METHODS)
def test_each_method_writes_what_it_prices(tmp_path, name, few_steps):
    options = PartitionOptions("given", method=name, samples=20, emit_samples=str(tmp_path / "s.jsonl"))
    result = answer(options, problem=Question(OPEN, None))
    lines = lines_of(tmp_path / "s.jsonl")
    assert 0 < len(lines) <= result.evaluations
    assert max(line["throughput_per_s"] for line in lines) == pytest.approx(result.objective.value, rel=1e-12)


def test_partitions_priced_by_the_simulator_are_written(tmp_path):
    question = Question(PROBLEM, package("mcm-8"))
    written = str(tmp_path / "s.jsonl")
    options = PartitionOptions("given", method="random", samples=30, evaluator="simulator", emit_samples=written)
    result = answer(options, problem=question)
    values = [line["throughput_per_s"] for line in lines_of(tmp_path / "s.jsonl")]
    assert max(values) == result.objective.value


@pytest.mark.parametrize("name", ["analytical", "simulator"])
def test_a_recorded_evaluator_prices_as_the_plain_one(name):
    question = Question(PROBLEM, package("mcm-8"))
    recorder = SampleRecorder()
    plain, recorded = question.evaluator(name), question.evaluator(name, recorder)
    chips = np.zeros((2, len(PROBLEM.graph)), dtype=np.int8)
    assert recorded.is_reference == plain.is_reference == (name == "analytical")
    assert (recorded.costs(chips) == plain.costs(chips)).all()
    assert (recorded.busy_s(chips) == plain.busy_s(chips)).all()
    ((priced, costs_s),) = recorder.taken()
    assert (priced == chips).all()
    assert (costs_s == plain.costs(chips)).all()


def test_recording_changes_no_search(few_steps):
    """What an evaluator is must not depend on who listens: the portfolio searches by it."""
    question = Question(OPEN, None)
    evaluators = (question.evaluator("analytical"), question.evaluator("analytical", SampleRecorder()))
    plain, recorded = (METHODS["portfolio"](context_of(OPEN, evaluator=evaluator)) for evaluator in evaluators)
    assert recorded == plain
    assert 0 < recorded.bound_s < 0.99 * recorded.cost_s


def test_a_file_that_cannot_be_written_is_refused_and_a_fault_leaves_none(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="emit-samples"):
        sample_log(tmp_path / "file" / "s.jsonl", PROBLEM).__enter__()
    with pytest.raises(ZeroDivisionError), sample_log(tmp_path / "s.jsonl", PROBLEM):
        math.fmod(1, 1 // 0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_workers_write_what_one_process_does(tmp_path, ray_executor):
    written = []
    for executor in (InProcessExecutor(), ray_executor):
        path = tmp_path / f"{len(written)}.jsonl"
        with sample_log(path, PROBLEM) as log:
            recorder = SampleRecorder(log)
            context = context_of(
                PROBLEM,
                evaluator=RecordedEvaluator(AnalyticalEvaluator(PROBLEM), recorder),
                executor=RecordingExecutor(executor, recorder),
                samples=700,
            )
            METHODS["random"](context)
        written.append(path.read_text())
    assert written[0] == written[1]
    assert len(np.unique(written[0].splitlines())) == written[0].count("\n") > 600
