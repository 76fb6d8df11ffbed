"""The machine and the placements that an answer is compared with."""

import dataclasses

import pytest

from dse.codesign.baseline import PAPERS_REFERENCE, baselines
from dse.codesign.options import CodesignOptions
from dse.models.hyperparameters import ExpertPlacement
from dse.models.workload import BuiltModel
from tests.codesign.tiny import tiny_problem

EXPERT = ExpertPlacement(pipeline=2, data=4, tensor=1, source="test")


def job_of(folder, cost_model="consistent"):
    job = tiny_problem(folder, cost_model=cost_model, hbm_gb="1").jobs[0]
    published = BuiltModel(job.workload.hyperparameters.model_copy(update={"expert_placement": EXPERT}))
    return dataclasses.replace(job, workload=published)


def per_s(rows):
    return {row["placement"]: row["plan"]["throughput_per_s"] for row in rows}


def test_the_expert_plan_is_called_the_papers(tmp_path):
    rows = baselines(job_of(tmp_path))
    assert [row["name"] for row in rows] == ["TPUv4, the paper's expert placement", "TPUv4, our placement"]
    assert per_s(rows)["own"] >= per_s(rows)["expert"] > 0


def test_the_published_tools_cost_model_compares_with_the_papers_machine(tmp_path):
    rows = baselines(job_of(tmp_path, "phaze-2024"))
    assert all(row["name"].startswith("TPUv4 of the PHAZE paper, ") for row in rows)
    assert [row["area_mm2"] for row in rows] == [pytest.approx(278.8266763064)] * 2


def test_the_chip_is_no_slower_than_the_papers_idea_of_it(tmp_path):
    job = job_of(tmp_path)
    chip, papers = per_s(baselines(job)), per_s(baselines(job, PAPERS_REFERENCE))
    assert all(chip[placement] > papers[placement] for placement in ("expert", "own"))


def test_the_default_area_budget_is_the_area_of_the_papers_machine():
    assert CodesignOptions(("bert-large",)).problem().area_budget_mm2 == pytest.approx(278.8266763064, rel=1e-12)
