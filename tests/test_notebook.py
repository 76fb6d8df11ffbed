"""The notebook of docs/ runs from its first cell to its last, and is kept without outputs."""

import json
from pathlib import Path

import pytest

import dse

NOTEBOOK = json.loads((Path(__file__).parents[1] / "docs" / "start" / "quickstart.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """What the cells leave, executed one after the other in one namespace."""
    namespace = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("notebook")
        patch.chdir(folder)
        patch.setattr("tempfile.tempdir", str(folder))
        for cell in CODE:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    return namespace


def test_every_answer_of_the_notebook_is_proven_and_passes_its_check(executed):
    answers = [executed["schedule"], executed["placement"], *executed["partitions"].values()]
    answers += [executed[name] for name in ("predicted", "best", "served", "campaign", "answer")]
    assert {answer.status for answer in answers} == {"optimal"}
    assert [answer.check() for answer in answers] == [[]] * len(answers)
    assert executed["too_small"].status == "infeasible"


def test_what_the_notebook_says_is_so(executed):
    assert executed["best"].value <= executed["predicted"].value
    (step,) = [each for each in executed["recorded"].solution["steps"] if each["cut"] == "host"]
    assert (step["compute_s"], step["exposed_communication_s"]) == pytest.approx((60e-6, 20e-6))
    values = [partition.value for partition in executed["partitions"].values()]
    assert values == sorted(values)
    assert executed["partitions"][3].figure() is not None
    space = executed["answer"].metrics["architectures_in_space"]
    assert f"{space:,} architectures" in "".join(line for cell in NOTEBOOK["cells"] for line in cell["source"])
    saved = json.loads(executed["saved"].read_text())
    assert saved["objective"]["value"] == executed["answer"].value
    assert (executed["saved"].parent / "report.html").exists()


def test_the_notebook_asks_every_problem_but_the_slow_one():
    text = "".join(line for cell in CODE for line in cell["source"])
    assert {name for name in dse.problems() if f"dse.{name}(" not in text} == {"wafer"}


def test_the_notebook_is_kept_without_outputs():
    assert [cell["id"] for cell in CODE if cell["outputs"] or cell["execution_count"] is not None] == []
    assert (NOTEBOOK["nbformat"], len({cell["id"] for cell in NOTEBOOK["cells"]})) == (4, len(NOTEBOOK["cells"]))
