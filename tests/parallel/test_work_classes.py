"""Work by class of operation: together it is the work of the plan, and every operation is in one class."""

import pytest

from dse.parallel.plan import work_of_plan
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from dse.parallel.work_classes import work_by_class
from tests.parallel.problems import DUMPS, dump, mlp


@pytest.mark.parametrize("name", ["vgg-tiny.hlo", "dlrm-tiny.hlo", "rare.hlo"])
def test_classes_take_the_work_of_the_plan_together(name):
    problem = dump(name, "data=2,model=2")
    prices = Prices(problem)
    plan = solve(problem, prices, "linkage").plan
    classes = work_by_class(problem, prices, plan)
    assert sum(each.work_ps for each in classes) == work_of_plan(prices, plan)
    counted = [
        each.repeats
        for number, each in enumerate(problem.graph.operations)
        if not problem.graph.is_constant(number) and not each.forwards
    ]
    assert sum(each.operations for each in classes) == sum(counted)
    assert [each.work_ps for each in classes] == sorted((each.work_ps for each in classes), reverse=True)


def test_products_are_a_class_of_their_own():
    problem = mlp("4")
    prices = Prices(problem)
    plan = solve(problem, prices, "exact").plan
    counts = {each.name: each.operations for each in work_by_class(problem, prices, plan)}
    assert counts == {"matrix products": 5, "elementwise and data movement": 5, "reductions": 1}


def test_the_page_shows_them_with_communication(dse, tmp_path):
    assert dse("parallel", DUMPS / "vgg-tiny.hlo", "--mesh", "2", "--out", tmp_path / "run", "--quiet").code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    section = page.partition("Time by operation class")[2].partition("Memory during the step")[0]
    assert all(
        name in section
        for name in ("matrix products", "convolutions", "elementwise and data movement", "communication")
    )
