"""The BERT of the reproduction: one graph, of the paper's size, in the table and in the figure."""

import numpy as np

from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.reproduce.mcm import figure7, study
from dse.reproduce.mcm.bert import paper_bert, problem_on
from hardware.packages import package


def test_table_and_figure_are_of_one_bert_of_the_papers_size():
    graph, chosen = paper_bert(), package(study.PACKAGE)
    assert abs(len(graph) / figure7.PAPER_OPERATORS - 1) < 0.02
    assert figure7.context_of(None, 0).graph is graph
    assert figure7.context_of(None, 0).package == chosen
    table3 = study.question_about(study.Study({}, {}, None).large)
    assert table3.package == chosen
    assert table3.problem.document() == problem_on(graph, chosen).document()


def test_about_as_many_random_partitions_cannot_run_as_in_the_paper():
    """13.5 % ± 3; of 300 the standard deviation is 2 %, so the bound on them is wider."""
    chosen = package(study.PACKAGE)
    problem = problem_on(paper_bert(), chosen)
    chips = Sampler(problem.graph, problem.chips).sample(seeds_of(0, 0, 300))
    share = np.mean(np.isinf(SimulatorEvaluator(problem, chosen).costs(chips)))
    assert 0.09 < share < 0.18
