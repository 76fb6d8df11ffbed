"""What is suggested for a name: something of its family, or nothing; and what other tools' words are taken for."""

import pytest

from dse.plan.training_plan import ALIASES, KEYS, read_plan
from dse.run.options import ALIASES as OPTION_ALIASES
from dse.run.options import option_of
from hardware.chips import list_chips
from hardware.inputs import InputError, nearest

MACHINES = ("a100-sxm", "h100-sxm", "h100-96gb", "h200-sxm", "b200", "gb200", "v100", "mi300x", "mi355x", "tpuv4")
SYSTEMS = ("dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "hgx-h800", "gb200-nvl72", "trn2")
MODELS = (
    "llama2-7b",
    "llama3-8b",
    "deep-speech-2",
    "deepseek-v2",
    "gpt3-175b",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "bert-large",
)


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("a100-80gb", MACHINES, "a100-sxm"),
        ("h100-80gb", MACHINES, "h100-sxm"),
        ("a100", MACHINES, "a100-sxm"),
        ("p100", MACHINES, None),
        ("h20", MACHINES, None),
        ("mi250x", MACHINES, None),
        ("h100-smx", MACHINES, "h100-sxm"),
        ("tpu4", MACHINES, "tpuv4"),
        ("deepseek-v3", MODELS, None),
        ("llama3-70b", MODELS, None),
        ("lama3-8b", MODELS, "llama3-8b"),
        ("mixtral", MODELS, "mixtral-8x7b"),
        ("gpt-3", MODELS, "gpt3-175b"),
        ("bert-lage", MODELS, "bert-large"),
        ("tensr", KEYS, "tensor"),
        ("b100", SYSTEMS, None),
        ("dgx-b100", SYSTEMS, None),
        ("dgx-h101", SYSTEMS, None),
        ("dgxh100", SYSTEMS, "dgx-h100"),
        ("dgx-h200-nvl", SYSTEMS, "dgx-h200"),
        ("hgx-b200", SYSTEMS, "dgx-b200"),
    ],
)
def test_what_is_meant_is_of_the_family_of_the_name_or_nothing(name, names, meant):
    assert nearest(name, names) == meant


def test_no_machine_is_offered_for_another_one():
    for name in MACHINES:
        others = [each for each in MACHINES if each != name]
        assert nearest(name, others) in (None, *(each for each in others if each[:4] == name[:4]))


@pytest.mark.parametrize("alias", ALIASES)
def test_a_key_of_a_plan_has_the_names_of_other_tools(alias):
    value = "yes" if alias == "sp" else "2"
    assert (
        read_plan(f"{alias}={value}") == read_plan(f"{alias.upper()}={value}") == read_plan(f"{ALIASES[alias]}={value}")
    )
    with pytest.raises(InputError, match="the key is given twice"):
        read_plan(f"{alias}={value},{ALIASES[alias]}={value}")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("tensor-model-parallel-size=2", "tensor"),
        ("expert_parallel=2", "expert"),
        ("pipeline_parallel_degree=2", "pipeline"),
        ("Context-Parallel-Size=2", "context"),
        ("micro-batch-size=2", "microbatch"),
    ],
)
def test_arguments_of_megatron_and_torchtitan_are_keys_of_a_plan(given, key):
    assert read_plan(given) == {key: 2}


@pytest.mark.parametrize(("word", "said"), [("fsdp", "zero=3"), ("dp_replicate", "zero_copies"), ("gas", "microbatch")])
def test_a_word_of_another_tool_names_the_keys_that_say_it(word, said):
    with pytest.raises(InputError) as error:
        read_plan(f"{word}=8")
    assert str(error.value).startswith(f"--plan: {word}: is not a plan key; use ")
    assert said in str(error.value)
    assert "known:" not in str(error.value)


@pytest.mark.parametrize("alias", ["gbs", "seqlen", "global_batch", "seq-length"])
def test_what_is_no_key_of_a_plan_names_the_option_that_takes_it(alias):
    with pytest.raises(InputError) as error:
        read_plan(f"{alias}=64")
    assert str(error.value) == f"--plan: {alias}: is not a plan key; use {option_of(alias)}"


def test_keys_are_listed_where_there_is_no_suggestion_alone():
    with pytest.raises(InputError) as error:
        read_plan("tensr=4,zzz=1")
    close, far = str(error.value).splitlines()
    assert close == "--plan: tensr: is not a plan key (did you mean tensor?)"
    assert "known: tensor, sequence_parallel" in far


@pytest.mark.parametrize("alias", [*OPTION_ALIASES["global_batch"], *OPTION_ALIASES["sequence"]])
def test_options_have_the_names_of_other_tools(dse, alias):
    said = dse("predict", "megatron-1.7b", f"--{alias}", 64, "--notes", "--plan", "tp=1,dp=8,pp=1")
    assert said.code == 0, said.err
    assert "64 samples" in said.out or "samples of 64 tokens" in said.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("codesign", "llama3-70b"), "model: llama3-70b: is a model for training plans; it requires --plans modern"),
        (("codesign", "Llama-3-70B"), "it requires --plans modern (did you mean llama3-70b?)"),
        (("predict", "llama3-8b", "--tp", "4"), "No such option '--tp'; use --plan tensor=… instead."),
        (("predict", "llama3-8b", "--pipeline", "4"), "No such option '--pipeline'; use --plan pipeline=… instead."),
        (
            ("predict", "llama3-8b", "--accelerators", 128, "--global-batch", 100, "--plan", "tp=1,cp=1,pp=1"),
            "--global-batch: 100: must be a multiple of 128 (data · microbatch of this plan on 128 devices) "
            "(did you mean 128?)",
        ),
        (
            ("predict", "llama3-8b", "--accelerators", 128, "--global-batch", 100, "--plan", "dp=128"),
            "data: 128: must divide the number of devices (128) and the batch size (100)",
        ),
    ],
    ids=str,
)
def test_a_fault_names_what_takes_the_word_or_the_rule_that_is_broken(dse, asked, said):
    answered = dse(*asked)
    assert answered.code == 2
    assert said in answered.err


def test_every_system_is_chosen_by_its_own_name():
    assert all(nearest(name, list_chips()) == name for name in list_chips())
