"""Plans as text and files, and what is said of those that break a rule."""

import json
from dataclasses import replace

import pytest
import yaml
from pydantic import ValidationError

from dse.plan.check_costs import plan_costs
from dse.plan.formats import PlanDocument
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.search.nearest_devices import nearest_devices
from dse.plan.search.vocabulary import families
from dse.plan.stack import stack
from dse.plan.training_plan import KEYS, TrainingPlan, read_plan, whole_plan, yaml_text
from hardware.chips import chip, list_chips, system
from hardware.inputs import InputError
from hardware.network_specs import network
from tests.plan.problems import plan, problem

MESH = (
    "tensor=2,context=2,data=4,pipeline=1",
    "the product is 16, but must equal the number of devices (8) (did you mean data=2?)",
)
BAD = {
    "axes": MESH,
    "heads": ("tensor=16", "tensor: 16: must divide the number of devices (8), the number of heads (32)"),
    "sequence": (
        "context=3",
        "context: 3: must divide the number of devices (8) and the sequence length (8,192) (did you mean 4?)",
    ),
    "layers": (
        "pipeline=8,interleave=5",
        "pipeline · interleave must be at most the number of layers (32) (did you mean 4?)",
    ),
    "batch": ("microbatch=3", "microbatch: 3: must divide the batch size (64) (did you mean 4?)"),
    "replica": ("data=8,microbatch=16", "data · microbatch must divide the batch size (64) (did you mean 8?)"),
    "experts": ("expert=2", "expert: 2: must divide the number of experts (1) (did you mean 1?)"),
    "key": ("tensr=2", "tensr: is not a plan key (did you mean tensor?)"),
    "abbreviation": ("VPP=64", "interleave: 64: must be at most the number of layers (32)"),
    "word": ("recompute=ful", "recompute: ful: must be none, selective, op, full, full/K (every K-th layer, K from 2"),
    "every": ("recompute=full/64", "recompute: full/64: K of full/K must be at most the number of layers (32)"),
    "copies": ("data=4,zero_copies=8,tensor=2", "zero_copies: 8: must divide data (4) (did you mean 4?)"),
    "no copies": ("zero=0,zero_copies=2", "zero_copies: 2: must be 1 with zero=0"),
    "order": (
        "order=tensor-data-pipeline",
        "order: tensor-data-pipeline: must be a permutation of tensor, context, data and pipeline",
    ),
    "one stage": ("pipeline=1,first_layers=3", "first_layers: 3: must be 0 with pipeline=1"),
    "short end": ("pipeline=2,interleave=2,last_layers=1", "last_layers: 1: must be 0, or at least interleave (2)"),
    "ends": (
        "pipeline=2,first_layers=10,last_layers=20",
        "last_layers: 20: first_layers + last_layers must be equal to the number of layers (32) (did you mean 22?)",
    ),
    "end of all layers": (
        "first_layers=32",
        "first_layers: 32: must leave at least 1 of the 32 layers to the other stage (did you mean 31?)",
    ),
    "ends of more than all layers": (
        "first_layers=20,last_layers=13",
        "last_layers: 13: first_layers + last_layers must be at most the number of layers (32) (did you mean 12?)",
    ),
    "implied stage": ("tensor=8,first_layers=3", "first_layers: 3: must be 0 with pipeline=1"),
    "long end": (
        "pipeline=4,first_layers=30",
        "first_layers: 30: must leave at least 3 of the 32 layers to the other 3 stages (did you mean 29?)",
    ),
    "one other stage": (
        "pipeline=2,first_layers=40",
        "first_layers: 40: must leave at least 1 of the 32 layers to the other stage (did you mean 31?)",
    ),
    "role": ("gradients=int8", "gradients: int8: must be one of stack, fp32, bf16, fp16, fp8"),
    "overlap": ("overlap_tensor=maybe", "overlap_tensor: maybe: must be one of stack, yes, no"),
    "loss": ("cross_entropy=fast", "cross_entropy: fast: must be one of stack, fused, unfused, chunked"),
    "number": ("tensor=two", "tensor: two: must be a whole number of at least 1\n"),
    "negative": ("tensor=-1", "tensor: -1: must be a whole number of at least 1 (did you mean 1?)"),
    "nothing": ("first_layers=-3", "first_layers: -3: must be a whole number of at least 0 (did you mean 0?)"),
    "fraction": ("tensor=3.9", "tensor: 3.9: must be a whole number of at least 1 (did you mean 4?)"),
    "infinite": ("tensor=1e400", "tensor: 1e400: must be a whole number of at least 1\n"),
    "large": (
        "tensor=99999999",
        "tensor: 99999999: must be a whole number of at least 1, at most 16,777,216 (did you mean 16777216?)",
    ),
    "flag": ("sequence_parallel=2", "sequence_parallel: 2: must be yes or no"),
    "flag misspelt": ("sequence_parallel=ye", "sequence_parallel: ye: must be yes or no (did you mean yes?)"),
    "zero": ("zero=4", "zero: 4: must be 0, 1, 2 or 3 (did you mean 3?)"),
    "zero as a word": ("zero=two", "zero: two: must be 0, 1, 2 or 3\n"),
    "form": ("tensor", "tensor: must be KEY=VALUE,… or a YAML file (.yaml)"),
    "twice": ("tensor=2,tensor=4", "tensor: the key is given twice"),
    "cut": ("tensor=1,sequence_parallel=yes", "must be no with tensor=1"),
    "stages": ("pipeline=1,interleave=2", "interleave: 2: must be 1 with pipeline=1"),
    "schedule": ("schedule=gpipe,interleave=2", "schedule: gpipe: must be 1f1b with interleave > 1"),
    "precision": (
        "precision=mxfp8",
        "--precision: mxfp8: must be one of fp16, bf16, fp8, int8, which h100-sxm supports (did you mean fp8?)",
    ),
    "together": ("tensor=8,data=2", "the product is 16, but must divide the number of devices (8)"),
    "rounds": (
        "tensor=1,context=1,data=2,pipeline=4,interleave=2,microbatch=16",
        "the number of microbatches per replica (2) must be a multiple of pipeline (4)",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_plan_that_breaks_a_rule_is_refused_in_one_line(dse, case):
    text, message = case
    answer = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", text)
    assert answer.code == 2
    assert len(answer.error_lines) == 1, answer.err
    assert message in answer.err


EXPERTS = {
    "copies": (
        "zero_copies=16,expert=8,data=64",
        "zero_copies: 16: must divide the number of ranks with the same experts (8)",
    ),
    "order": (
        "order=pipeline-tensor-context-data,pipeline=2,expert=8",
        "expert: 8: must divide the number of contiguous ranks per stage in this order (1) (did you mean 1?)",
    ),
}


@pytest.mark.parametrize("case", EXPERTS.values(), ids=EXPERTS)
def test_a_rule_that_the_given_keys_imply_to_be_broken_is_named(dse, case):
    text, message = case
    answer = dse("predict", "mixtral-8x7b", "--accelerators", 64, "--global-batch", 1024, "--plan", text)
    assert answer.code == 2
    assert len(answer.error_lines) == 1, answer.err
    assert message in answer.err


def test_copies_that_leave_nothing_to_share_are_priced_where_they_are_asked_for():
    posed = problem("llama3-8b", devices=8, batch=64, zero_copies=8)
    best = enumerate_plans(posed).least
    assert best.plan.zero_copies == 8
    assert best.plan.zero > 0
    assert best.memory_bytes == pytest.approx(plan_costs(posed, replace(best.plan, zero=0, zero_copies=1)).memory_bytes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on", "h100"), "no accelerator or system of this name"),
        (("--stack", "nemo"), "no stack of this name"),
        (("--precision", "fp9"), "no precision of this name"),
        (("--plan", "precision=fp8", "--precision", "bf16"), "must equal --precision (bf16)"),
        (
            ("--precision", "fp8", "--on", "tpuv6e"),
            "--precision: fp8: must be one of bf16, int8, which tpuv6e supports (did you mean int8?)",
        ),
        (("--accelerators", 0), "'--accelerators': 0 is not in the range 1<=x<=1048576."),
        (
            ("--accelerators", 37, "--global-batch", 5),
            "--accelerators: 37: no plan uses all accelerators with a batch of 5, which must be a multiple of 37 "
            "(did you mean 38?)",
        ),
        (
            ("--accelerators", 1000),
            "--accelerators: 1000: no plan uses all accelerators with a batch of 1,024, which must be a multiple of "
            "5 or 10 or 20 or 25 … (did you mean 992?)",
        ),
        (
            ("--accelerators", 1000, "--plan", "pipeline=4"),
            "--global-batch: 1024: must be a multiple of 125 or 250 (data · microbatch of this plan on 1,000 devices) "
            "(did you mean 1000?)",
        ),
        (("--network", "dgx"), "no network spec of this name"),
    ],
)
def test_other_options_are_refused_in_one_line(dse, arguments, message):
    answer = dse("predict", "llama3-8b", *arguments)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert message in answer.err


@pytest.mark.parametrize(
    ("model", "fixed"),
    [
        ("llama3-8b", {}),
        ("llama3-8b", {"pipeline": 3, "microbatch": 2}),
        ("llama3-8b", {"tensor": 2, "interleave": 2}),
        ("mixtral-8x7b", {}),
        ("mixtral-8x7b", {"expert": 8}),
    ],
)
@pytest.mark.parametrize("devices", [37, 67, 94])
def test_the_nearest_number_of_devices_is_that_of_all_that_are_tried_one_by_one(model, fixed, devices):
    posed = problem(model, devices=devices, batch=12, sequence=96, **fixed)
    legal = [n for n in range(1, 400) if next(families(replace(posed, devices=n), 1), None) is not None]
    assert nearest_devices(posed) == min(legal, key=lambda n: (max(n / devices, devices / n), n))


def test_no_number_of_devices_is_offered_where_none_suits_what_is_fixed():
    # Each replica has one sample, which is one microbatch: too few for two chunks on any number of stages.
    assert nearest_devices(problem("llama3-8b", devices=1000, batch=8, data=8, interleave=2)) is None


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        (
            ["full/999"],
            "recomputations.value: full/999: no mode fits llama3-8b: K of full/K must be at",
        ),
        (
            ["moe", "moe_act+moe"],
            "recomputations.value: moe, moe_act+moe: llama3-8b has no moe and no moe_act (its modules: core_attn, "
            "layernorm, mlp)\n",
        ),
        (
            ["moe", "full/999"],
            "recomputations.value: moe, full/999: llama3-8b has no moe (its modules: core_attn, layernorm, mlp); "
            "no mode fits llama3-8b: K of full/K must be at most its number of layers (32)\n",
        ),
        (
            ["none", "ful"],
            'recomputations.value: ["none", "ful"]: each must be none, selective, op, full, full/K',
        ),
        (["none", "none"], 'recomputations.value: ["none", "none"]: must not repeat a mode'),
    ],
)
def test_modes_of_a_stack_that_no_plan_can_have_are_refused_in_one_line(dse, tmp_path, modes, message):
    document = stack("generic").model_dump(mode="json")
    document["recomputations"] = {"value": modes, "source": "a test"}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    answer = dse("plan", "llama3-8b", "--stack", path)
    assert answer.code == 2
    assert len(answer.error_lines) == 1, answer.err
    assert f"{path}: {message}" in answer.err


def test_a_plan_is_read_as_it_was_written(tmp_path):
    settings = {"moments": "bf16", "gradient_transfer": "fp32", "overlap_tensor": "no", "overlap_expert": "yes"}
    mesh = {"tensor": 8, "sequence_parallel": True, "order": "context-tensor-data-pipeline", "first_layers": 5}
    each = plan(**mesh, **settings, zero=3, zero_copies=2, recompute="full/3", schedule="gpipe", precision="fp8")
    path = tmp_path / "plan.yaml"
    path.write_text(yaml_text(each))
    assert TrainingPlan(**read_plan(each.text())) == TrainingPlan(**read_plan(str(path))) == each
    assert whole_plan(each.document(), "result") == each
    assert read_plan("") == {}


def test_predict_prices_a_plan_and_shows_the_best(dse, tmp_path):
    whole = plan(tensor=2, sequence_parallel=True, data=4, zero=1, microbatch=2).text()
    answer = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", whole, "--json", "--out", tmp_path / "run")
    assert answer.code == 0
    result = json.loads(answer.out)
    assert result["solution"]["plan"]["tensor"] == 2
    metrics = result["metrics"]
    assert sum(metrics["time_s"].values()) == pytest.approx(result["objective"]["value"])
    assert metrics["best"]["step_s"] <= metrics["step_s"]
    assert metrics["tokens_per_s"] == pytest.approx(64 * 8192 / metrics["step_s"])
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"
    best = dse("predict", "llama3-8b", "--global-batch", 64, "--json")
    assert json.loads(best.out)["metrics"]["step_s"] == pytest.approx(metrics["best"]["step_s"])
    for bad in ("mlp+mlp", "ful"):
        file = tmp_path / "bad.json"
        file.write_text(
            (tmp_path / "run" / "result.json").read_text().replace('"recompute": "none"', f'"recompute": "{bad}"')
        )
        refused = dse("check", file)
        assert (refused.code, len(refused.error_lines)) == (2, 1), refused.err
        assert f"{file}: solution: plan.recompute: {bad}: must be none, selective, op, full, full/K" in refused.err
    kept = tmp_path / "run" / "plan.yaml"
    again = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", kept, "--json")
    assert json.loads(again.out)["solution"] == result["solution"]


def test_the_sets_of_modules_that_are_tried_are_named_and_so_is_a_plan_that_is_faster_than_all(dse, tmp_path):
    mesh = {"tensor": 2, "sequence_parallel": True, "data": 4, "zero": 1}

    def notes(recompute, *more):
        whole = plan(**mesh, recompute=recompute).text()
        return " ".join(
            dse("predict", "llama3-8b", "--global-batch", 64, "--notes", "--plan", whole, *more).out.split()
        )

    sets = "that the search may recompute: none, selective, layernorm, mlp, layernorm+mlp; --plan accepts any other set"
    assert sets in notes("core_attn+mlp")
    assert "that the search may recompute" not in notes("full", "--stack", "megatron-2022")
    document = stack("generic").model_dump(mode="json") | {"recomputations": {"value": ["full"], "source": "a test"}}
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump(document))
    assert (
        " s; the proven best in the vocabulary "
        in notes("none", "--stack", own).partition("outside the vocabulary, takes")[2]
    )
    assert "outside the vocabulary" not in notes("full", "--stack", own)


def test_overlaps_that_make_no_difference_are_noted(dse):
    whole = plan(tensor=2, sequence_parallel=True, data=4, zero=1, microbatch=2).text()
    settings = "overlap_tensor=yes,overlap_pipeline=yes,overlap_expert=no"
    answer = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", f"{whole},{settings}")
    assert answer.code == 0
    noted = [line for line in answer.out.splitlines() if "has no effect" in line]
    assert noted == [
        "overlap_expert=no has no effect because expert=1",
        "overlap_pipeline=yes has no effect because interleave=1",
    ]


def test_the_plan_of_a_result_may_be_of_before_offload():
    document = plan().document()
    assert "offload" not in document
    assert whole_plan(document, "result") == plan()


@pytest.mark.parametrize("key", [key for key in KEYS if key != "offload"])
def test_the_plan_of_a_result_has_every_key(key):
    document = plan().document()
    del document[key]
    with pytest.raises(InputError, match=f"result: {key}: must be given"):
        whole_plan(document, "result")
    with pytest.raises(ValidationError):
        PlanDocument.model_validate(document)


def test_a_result_whose_plan_has_another_order_is_refused_by_the_name_of_its_file(dse, tmp_path):
    whole = plan(tensor=2, sequence_parallel=True, data=4, zero=1, microbatch=2).text()
    assert dse("predict", "llama3-8b", "--global-batch", 64, "--plan", whole, "--out", tmp_path / "run").code == 0
    path = tmp_path / "run" / "result.json"
    result = json.loads(path.read_text())
    result["solution"]["plan"]["order"] = "bogus"
    path.write_text(json.dumps(result))
    answer = dse("check", path)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert f"{path}: solution: plan.order" in answer.err


def test_a_plan_that_does_not_fit_says_by_how_much_and_what_would(dse):
    whole = plan(data=8, zero=0).text()
    answer = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", whole)
    assert answer.code == 1
    assert "the plan needs" in answer.out
    assert "possible remedy: --plan tensor=" in answer.out
    answer = dse("plan", "llama3-405b", "--global-batch", 64)
    assert answer.code == 1
    assert "no plan in the vocabulary fits: the smallest" in answer.out
    answer = dse("predict", "llama3-8b", "--global-batch", 64, "--plan", "data=8,zero=0")
    assert answer.code == 1
    assert "no plan with the given data, zero fits: the smallest" in answer.out


def test_every_chip_comes_in_a_system_of_its_own():
    joined = {name: chip(name).network for name in list_chips()}
    assert len(set(joined.values())) == len(joined)
    for name, net in joined.items():
        assert system(name).network == network(net)
    for name in ("h100-sxm", "h100-96gb", "gb200"):
        assert system(joined[name]).chip.name == name


def test_a_larger_batch_is_compared_by_throughput(dse):
    """A step of twice the samples takes longer; what changes the answer is what it makes of a second."""
    answered = dse("plan", "megatron-1.7b", "--accelerators", 8, "--global-batch", 64, "--sensitivity", "--json")
    assert answered.code == 0, answered.err
    metrics = json.loads(answered.out)["metrics"]
    twice = metrics["sensitivity"]["twice the batch"]
    gain = 100 * (2 * metrics["step_s"] / twice["step_s"] - 1)
    assert 0 <= gain < 50
    shown = dse("plan", "megatron-1.7b", "--accelerators", 8, "--global-batch", 64, "--sensitivity")
    (row,) = (line for line in shown.out.splitlines() if "twice the batch" in line)
    assert f"{gain:+.1f} %" in row
    assert "-0.0 %" not in shown.out
