"""The published cases with their proven optima."""

import json
import math

import pytest

from dse.placement.check import violations
from dse.placement.formats import placement_document, placement_from_document, read_problem
from dse.placement.solve import solve
from tests.shared_data import shared_data

NAMES = (
    "01_bertlarge_24L_mb8_hbm32",
    "03_gpt2xl_40L_mb1_hbm32",
    "05_megatron8b_72L_mb4_hbm32_recomp_W8",
    "07_gpt3_96L_mb1_hbm80_recomp_W8",
    "09_llama2_32L_mb1_hbm80",
    "11_jitter_24L_mb4_hbm64_W8",
    "13_jitter_24L_K64_mb2_hbm32_W4",
    "14_skipedge_24L_mb8_hbm32",
    "15_infeasible_gpt3_hbm32_norecomp_mb8",
    "20_54L_W4_K256_fastnet_hbm32",
)


def test_every_case_is_listed():
    cases = {path.name.removesuffix(".expected.json") for path in shared_data("placement").glob("*.expected.json")}
    assert cases == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_its_known_optimum(name):
    problem = read_problem(shared_data("placement", f"{name}.json"))
    expected = json.loads(shared_data("placement", f"{name}.expected.json").read_text())
    solution = solve(problem)
    if expected["status"] == "infeasible":
        assert solution.placement is None
        assert solution.shortfall.excess_bytes > 0
        return
    assert violations(problem, solution.placement) == []
    assert math.isclose(solution.placement.batch_s, expected["batch_s"], rel_tol=1e-9)
    assert solution.bound_s is None


def test_solution_survives_writing_and_reading():
    problem = read_problem(shared_data("placement", "13_jitter_24L_K64_mb2_hbm32_W4.json"))
    placement = solve(problem).placement
    document = json.loads(json.dumps(placement_document(problem, placement)))
    assert document["stages"][0]["layers"][0] == "embedding"
    assert placement_from_document(problem, document, "result.json", placement.batch_s) == placement
