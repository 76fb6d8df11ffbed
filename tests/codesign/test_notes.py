"""What an answer says beside itself: idle accelerators, stretched networks, what a proof covers, what was dropped."""

import json
from types import SimpleNamespace

import pytest

from dse.codesign.notes import notes
from dse.codesign.report.table import verdict
from dse.codesign.vocabulary import missing_parallelism
from dse.models.recipe import TrainingRecipe
from dse.sources.describe import note_on_scores
from dse.sources.workloads import workload
from hardware.network_specs import list_networks, network, network_spec
from hardware.specs import accelerator
from tests.codesign.tiny import MODEL, tiny_options

ON_A100 = ("--fixed", "a100-sxm", "--global-batch", "32", "--microbatch", "1", "--workers", "0")

EXPERTS = """
import torch

class Experts(torch.nn.Module):
    def __init__(self, experts, width):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.experts = torch.nn.Parameter(torch.empty(experts, width, width))

    def forward(self, tokens):
        rows = self.first(tokens).reshape(self.experts.shape[0], -1, tokens.shape[-1])
        return torch.bmm(rows, self.experts).reshape(tokens.shape)

def model():
    with torch.device("meta"):
        return torch.nn.Sequential(*(Experts(8, 256) for _ in range(4))), torch.empty(1, 64, 256)
"""

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 1,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 16,
}

UNTRACEABLE = """
import torch

def model(microbatch=1):
    if microbatch {rule}:
        raise ValueError("this batch has no shape")
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)), torch.empty(microbatch, 32)
"""


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(MODEL.format(name="tiny", layers=3, hidden=64))
    return path


def used(problem, count):
    return {job.name: {"accelerators_used": count, "pipeline": count, "data": 1, "tensor": 1} for job in problem.jobs}


def test_a_network_that_joins_fewer_accelerators_is_named(tmp_path):
    problem = tiny_options(tmp_path, accelerators=1024, network="nvlink3").problem()
    (line,) = notes(problem, used(problem, 1024))
    assert line == (
        "The network nvlink3 is used as one flat level for 1,024 accelerators, although its links connect at most 16; "
        "--network dgx-a100 has a level between servers."
    )


@pytest.mark.parametrize(("name", "accelerators"), [("nvlink3", 16), ("dgx-a100", 1024), ("phaze-flat", 10**6)])
def test_a_network_that_joins_them_all_is_not(tmp_path, name, accelerators):
    problem = tiny_options(tmp_path, accelerators=accelerators, network=name).problem()
    assert notes(problem, used(problem, accelerators)) == []


def test_levels_between_the_first_and_the_last_are_named(tmp_path):
    levels = [("nvlink2", 4), ("infiniband-hdr", 16), ("ethernet-25g", None)]
    path = tmp_path / "three.yaml"
    document = [
        {"network": name} | ({"accelerators": {"value": size, "source": "here"}} if size else {})
        for name, size in levels
    ]
    path.write_text(json.dumps({"name": "three", "levels": document}))
    problem = tiny_options(tmp_path, accelerators=32, network=str(path)).problem()
    (line,) = notes(problem, used(problem, 32))
    assert line.startswith(
        "Placement models only the innermost and outermost levels of three: traffic that leaves a node of 4 "
    )
    inside = tiny_options(tmp_path, accelerators=16, network=str(path)).problem()
    assert notes(inside, used(inside, 16)) == []  # two levels are left


def test_every_domain_has_its_source_and_holds_the_nodes_that_are_built_of_it():
    for spec in map(network_spec, list_networks()):
        if getattr(spec, "domain", None) is not None:
            assert spec.domain.value > 1
            assert len(spec.domain.source) > 10
        for level in getattr(spec, "levels", [])[:-1]:
            assert level.accelerators.value <= network(level.network).domain_accelerators


def test_accelerators_that_stay_idle_are_counted(tmp_path):
    problem = tiny_options(tmp_path).problem()
    (line,) = notes(problem, used(problem, 15))
    assert line == (
        "tiny leaves 1 of 16 accelerators unused: 15 pipeline × 1 data × 1 tensor is the fastest plan found."
    )


def test_notes_are_printed_kept_and_checked(dse, model_file, tmp_path):
    out = tmp_path / "run"
    asked = ("codesign", model_file, *ON_A100, "--network", "nvlink3", "--accelerators", "20")
    assert dse(*asked, "--out", out).code == 0
    document = json.loads((out / "result.json").read_text())
    assert any("used as one flat level for 20 accelerators" in note for note in document["metrics"]["notes"])
    assert "used as one flat level for 20 accelerators" in (out / "report.html").read_text()
    assert "The network nvlink3" in dse(*asked).out
    assert dse("check", out / "result.json").out == "ok\n"
    document["metrics"]["notes"] = []
    (tmp_path / "altered.json").write_text(json.dumps(document))
    assert "metrics.notes" in dse("check", tmp_path / "altered.json").out


def test_infeasible_says_which_plans_are_ruled_out(dse, model_file):
    shown = dse("codesign", model_file, *ON_A100, "--accelerators", "2", "--hbm-gb", "0.0001")
    assert "Infeasible: none of the searched plans fits tiny." in shown.out
    assert "Every pipeline × data × tensor plan is ruled out" in shown.out
    assert "8 bytes of weights, gradients and optimizer state" in shown.out
    assert "expert parallelism" not in shown.out


def test_infeasible_says_that_experts_are_not_divided(dse, tmp_path):
    pytest.importorskip("torch")
    source = tmp_path / "experts.py"
    source.write_text(EXPERTS)
    shown = dse("codesign", f"{source}:model", *ON_A100, "--accelerators", "2", "--hbm-gb", "0.0001")
    assert "Experts hold 89 % of its weights" in shown.out
    assert "these plans have no expert parallelism" in shown.out


def test_the_share_of_experts_is_that_of_the_model_at_any_tensor_width(dse, tmp_path):
    """Tensor parallelism divides all but the experts, so their share of what one accelerator keeps grows with it."""
    pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DEEPSEEK))
    # By hand: hidden 64; an expert has 3 · 64 · 32 weights, and 8 of them are in the one layer that is not dense.
    experts = 8 * 3 * 64 * 32
    parameters = workload(str(path)).graph(1, 1, TrainingRecipe()).parameters
    shown = dse("codesign", path, *ON_A100, "--accelerators", "8", "--hbm-gb", "0.0001")
    assert "At tensor width 4" in shown.out
    assert f"Experts hold {100 * experts / parameters:.0f} % of its weights" in shown.out


def test_attention_scores_are_no_reason_where_weights_are_it(dse, tmp_path):
    """Scores are the largest activation of both models; only in the second do activations matter to what fits."""
    pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    for sizes, is_reason in (({"n_routed_experts": 512}, False), ({}, True)):
        path.write_text(json.dumps(DEEPSEEK | {"max_position_embeddings": 128} | sizes))
        graph = workload(str(path)).graph(1, 1, TrainingRecipe())
        assert note_on_scores(graph) is not None
        shown = dse("codesign", path, *ON_A100, "--accelerators", "8", "--tensor-parallel", "1", "--hbm-gb", "0.0001")
        assert ("Attention scores are stored" in shown.out) == is_reason


def test_heads_are_no_experts(tmp_path):
    job = tiny_options(tmp_path).problem().jobs[0]
    assert missing_parallelism(job.workload.graph(1, 1, job.recipe)) is None


def test_a_microbatch_that_cannot_be_traced_is_dropped_and_named(dse, tmp_path):
    pytest.importorskip("torch")
    source = tmp_path / "odd.py"
    source.write_text(UNTRACEABLE.format(rule="== 2"))
    asked = ("--fixed", "a100-sxm", "--accelerators", "2", "--global-batch", "32", "--workers", "0")
    out = tmp_path / "run"
    shown = dse("codesign", f"{source}:model", *asked, "--microbatch", "1,2,4", "--out", out)
    assert shown.code == 0, shown.err
    assert "not evaluated at microbatch 2, for which it has no graph" in shown.out
    assert "this batch has no shape" in shown.out
    assert dse("check", out / "result.json").out == "ok\n"


def test_a_model_that_no_microbatch_can_be_traced_at_is_refused(dse, tmp_path):
    pytest.importorskip("torch")
    source = tmp_path / "odd.py"
    source.write_text(UNTRACEABLE.format(rule=">= 2"))
    shown = dse("codesign", f"{source}:model", *ON_A100[:2], "--global-batch", "32", "--microbatch", "2,4")
    assert shown.code == 2
    assert "this batch has no shape" in shown.err


@pytest.mark.parametrize(
    ("status", "says"),
    [("feasible", "whether another HBM size is better is not proven"), ("interrupted", "interrupted")],
)
def test_a_closed_gap_is_not_called_unproven(status, says):
    result = SimpleNamespace(
        status=status,
        method="exhaustive",
        seconds=1.0,
        bound=100.0,
        gap=0.0,
        objective=SimpleNamespace(value=100.0, unit="samples/s"),
        metrics={"architectures_in_space": 3, "architectures_evaluated": 3},
        settings={"fixed": None, "models": ["m"], "mean": "geometric"},
        solution={"models": {"m": {"hbm_gb": 64.0}}},
    )
    text = verdict(result)
    assert "proven optimal at 64 GB of HBM" in text
    assert says in text
    assert "gap" not in text


def test_what_the_spec_of_a_fixed_accelerator_leaves_open_is_noted(tmp_path):
    problem = tiny_options(tmp_path, area_budget=None, fixed="v100", accelerators=8).problem()
    first, *_ = notes(problem, used(problem, 8))
    assert first == "v100: no kernels: section: sustained efficiency is assumed to be ideal."


def test_power_above_the_chips_limit_is_noted(tmp_path):
    problem = tiny_options(tmp_path, area_budget=None, fixed="v100", accelerators=8).problem()
    within, above = (notes(problem, used(problem, 8), {"tiny": {"power_w": watts}}) for watts in (300.0, 301.0))
    (note,) = (note for note in above if note not in within)
    assert note.startswith("tiny on v100: the modelled 301 W exceed the chip's 300 W; it would run slower")


@pytest.mark.parametrize(("watts", "stated"), [(300.4, "300.4 W"), (300.04, "300.04 W"), (1171.3, "1171 W")])
def test_power_just_above_the_limit_is_not_rounded_to_it(watts, stated):
    assert f"the modelled {stated} exceed the chip's 300 W" in accelerator("v100").power_note(watts)


@pytest.mark.parametrize(("cost_model", "count"), [("consistent", 0), ("phaze-2024", 1)])
def test_an_area_without_interfaces_is_noted(tmp_path, cost_model, count):
    problem = tiny_options(tmp_path, objective="per-mm2", cost_model=cost_model).problem()
    found = [note for note in notes(problem, used(problem, 16)) if "leaves out the interfaces" in note]
    assert len(found) == count


@pytest.mark.parametrize("cost_model", ["consistent", "phaze-2024"])
def test_utilisation_above_the_peak_is_explained_once(tmp_path, cost_model):
    problem = tiny_options(tmp_path, cost_model=cost_model).problem()
    figures = [{"tiny": {"model_flops_utilisation": share}} for share in (1.0, 3.367)]
    within, above = (notes(problem, used(problem, 16), each) for each in figures)
    (note,) = (note for note in above if note not in within)
    assert within == [each for each in above if each != note]
    assert note.startswith("tiny: 336.7 % of peak FLOPs is an artefact of")
    assert ("phaze-2024" in note) == (cost_model == "phaze-2024")


def test_a_chip_without_known_cores_trains_and_says_what_is_assumed(dse, model_file, tmp_path):
    asked = ("codesign", model_file, "--fixed", "mi300x", "--accelerators", 2, "--global-batch", 8, "--workers", 0)
    shown = dse(*asked, "--microbatch", 1, "--out", tmp_path / "run")
    assert shown.code == 0, shown.err
    assert "its cores are not known: assumed are" in " ".join(shown.out.split())
    assert dse("check", tmp_path / "run").out == "ok\n"
    refused = dse(*asked, "--objective", "per-mm2")
    assert "--objective: per-mm2: must be throughput on mi300x" in refused.err
