"""Elements of another size than the cost model's: what shrinks with them, and what does not."""

import pytest
import yaml

from dse.codesign.evaluation.evaluator import Evaluator
from hardware.specs import accelerator
from tests.codesign.tiny import tiny_problem
from tests.hardware.test_specs import text_of


def chip_of(folder, element_bytes):
    document = yaml.safe_load(text_of("chips", "v100"))
    document["cores"]["element_bytes"]["value"] = element_bytes
    path = folder / f"chip-{element_bytes}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("element_bytes", "state_bytes"), [(1, 14), (2, 16), (4, 16)])
def test_memory_and_time_see_the_chips_elements_and_the_optimizers_own(tmp_path, element_bytes, state_bytes):
    problem = tiny_problem(tmp_path, area_budget=None, fixed=chip_of(tmp_path, element_bytes), hbm_gb="1")
    (job,) = problem.jobs
    assert job.recipe.element_bytes == element_bytes
    graph = job.workload.graph(1, 1, job.recipe)
    evaluator = Evaluator(job, problem.machines())
    placed = evaluator.placement_problem(evaluator.choice((1, 1), job.hbm_bytes[0], False), None)
    layers = placed.tensor_parallel[1].layers
    assert sum(layer.weight_bytes for layer in layers) == element_bytes * sum(
        layer.weight_bytes // job.recipe.element_bytes for layer in graph.layers
    )
    assert placed.state_factor * element_bytes == state_bytes


def test_a_chip_of_other_elements_says_what_is_assumed(tmp_path):
    (note,) = [each for each in accelerator(chip_of(tmp_path, 1)).notes if each.startswith("element_bytes 1")]
    assert "have 1 byte each" in note
    assert "adam keeps 12 bytes of state per parameter" in note
    assert not [each for each in accelerator(chip_of(tmp_path, 2)).notes if each.startswith("element_bytes")]
