"""What the paper prints, as data: read whole, and consistent with itself and with our models."""

import pytest
import yaml

from dse.reproduce.phaze.baselines import spec_name
from dse.reproduce.phaze.context import position
from dse.reproduce.phaze.published import PublishedPaper, read_published
from dse.sources.workloads import list_models, model
from hardware.inputs import InputError, validate
from hardware.space import architecture_space
from hardware.specs import accelerator
from hardware.units import MIB

PAPER = read_published()
MODELS = sorted(PAPER.models)


def document():
    return PAPER.model_dump(mode="json", by_alias=True)


def test_models_of_the_paper_are_built_in():
    assert set(PAPER.models) <= set(list_models())
    assert len(PAPER.models) == 8


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_consistent(name):
    row = PAPER.models[name]
    published = row.table_2
    used = published.placement.pipeline * published.placement.data * published.placement.tensor
    assert used <= PAPER.setup.accelerators
    assert str(published.microbatch) in PAPER.setup.microbatch.split(",")
    assert str(published.hbm_gb) in PAPER.setup.hbm_gb.split(",")
    assert published.placement.tensor in model(name).tensor_parallel
    assert published.accelerator.lanes == published.accelerator.width
    assert (row.table_4 is None) == (row.table_5 is None) == (name == "llama2-7b")
    if row.table_5 is not None:
        assert row.table_5.tpuv4_expert <= row.table_5.tpuv4_solver <= row.table_5.common


def test_the_papers_machines_are_points_of_the_space():
    machines = architecture_space()
    for row in [*PAPER.models.values()]:
        machine = row.table_2.accelerator
        assert position(machines, machine, machine.global_buffer_mb) is not None
    common = PAPER.common.accelerator
    index = position(machines, common, common.global_buffer_mb)
    assert machines.core_width[index] * machines.core_depth[index] == 256 * 256
    assert position(machines, common, 3) is None


@pytest.mark.parametrize("name", MODELS)
def test_spotlights_specs_are_what_the_paper_prints(name):
    printed, machine = PAPER.models[name].table_2.spotlight, accelerator(spec_name(name)).machines
    sizes = (machine.tensor_cores, machine.vector_cores, machine.core_width, machine.core_depth, machine.vector_lanes)
    cores = (printed.tensor_cores, printed.vector_cores, printed.width, printed.depth, printed.lanes)
    assert tuple(int(size[0]) for size in sizes) == cores
    memories = (machine.global_buffer_bytes, machine.tensor_l2_bytes, machine.vector_l2_bytes)
    megabytes = (printed.global_buffer_mb, printed.tensor_l2_mb, printed.vector_l2_mb)
    assert tuple(int(size[0]) / MIB for size in memories) == megabytes


def test_the_means_follow_from_the_utilisations():
    """Without Llama2-7B, which Table 5 leaves out, the paper's own ratios come near its printed means."""
    ratios = [row.table_5.common / row.table_5.tpuv4_expert for row in PAPER.models.values() if row.table_5]
    mean = 1.0
    for ratio in ratios:
        mean *= ratio ** (1 / len(ratios))
    assert mean == pytest.approx(PAPER.speedups.common_over_expert, rel=0.15)


@pytest.mark.parametrize("name", [name for name in MODELS if PAPER.models[name].table_4])
def test_expert_placements_are_those_of_the_model_files(name):
    ours, theirs = model(name).expert_placement, PAPER.models[name].table_4.expert
    assert (ours.pipeline, ours.data, ours.tensor) == (theirs.pipeline, theirs.data, theirs.tensor)


def _broken(path, value):
    copy = yaml.safe_load(yaml.safe_dump(document()))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "dse.paper/2"),
        (("models", "bert-large", "table_5", "common"), 188.1),
        (("models", "bert-large", "table_5", "common"), -1),
        (("models", "bert-large", "table_2", "placement", "data"), 0),
        (("models", "bert-large", "table_2", "hbm"), 32),
        (("speedups", "common_over_expert"), 0),
        (("setup", "source"), ""),
        (("convergence", "levels"), [0]),
        (("models",), {}),
    ],
    ids=str,
)
def test_broken_numbers_are_refused(path, value):
    if path == ("models",):
        value = {"bert-huge": document()["models"]["bert-large"]}
    with pytest.raises(InputError) as caught:
        validate(PublishedPaper, _broken(path, value), "phaze.yaml")
    assert all(fault.file == "phaze.yaml" for fault in caught.value.faults)
