"""What users are told beside the figures: whatever was assumed of their machine or their step."""

import pytest

from tests.parallel.problems import MLP

SERVERS = ("--network", "dgx-a100")


def shown(dse, tmp_path, text, *asked):
    (tmp_path / "step.hlo").write_text(text)
    answer = dse("parallel", tmp_path / "step.hlo", "--method", "linkage", "--notes", *asked)
    assert answer.code == 0
    return answer.out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--mesh", "9", *SERVERS), ["9 devices are 2 servers of 8, the last with only 1", "up to 8 × as long"]),
        (("--mesh", "12", *SERVERS), ["12 devices are 2 servers of 8, the last with only 4", "up to 2 × as long"]),
        (("--mesh", "data=4,model=6", *SERVERS), ["Groups along model span 6 devices, so some cross"]),
        (
            ("--mesh", "6"),
            ["because they are not multiples of it: 16 (params['w1']; 18 if padded), 32 (params['w1']; 36 if padded)"],
        ),
    ],
)
def test_what_does_not_divide_is_told(dse, tmp_path, asked, words):
    out = shown(dse, tmp_path, MLP, *asked)
    assert all(each in out for each in words)


def test_plans_that_there_are_not_to_compare_with_are_told(dse, tmp_path):
    out = shown(dse, tmp_path, MLP, "--mesh", "data=7,model=3")
    assert "Data parallel and FSDP are not compared: no batch of the inputs can be split along data=7." in out
    assert "Megatron is not compared: no product with a trained tensor can be split along model=3." in out
    assert "not compared" not in shown(dse, tmp_path, MLP, "--mesh", "data=2,model=2")


def test_plans_that_do_not_fit_are_marked(dse, tmp_path):
    out = shown(dse, tmp_path, MLP, "--mesh", "2", "--memory-gb", f"{5 / 1024**2:.9f}")
    assert "data parallel, does not fit" in out
    assert "FSDP, does not fit" not in out


@pytest.mark.parametrize("asked", [("--mesh", "16", *SERVERS), ("--mesh", "data=2,model=4", *SERVERS), ("--mesh", "8")])
def test_nothing_is_told_where_all_divides(dse, tmp_path, asked):
    out = shown(dse, tmp_path, MLP.replace("32,8", "32,16").replace("64,8", "64,16"), *asked)
    assert not any(words in out for words in ("the last with only", "some cross", "Not split"))


def test_shared_links_are_no_slower_in_a_server_that_is_not_full(dse, tmp_path):
    out = shown(dse, tmp_path, MLP, "--mesh", "9", "--accelerator", "v100", "--network", "v100-ethernet")
    assert "9 devices are 2 servers of 8, the last with only 1; its cost is that of a full server." in out
    assert "as long" not in out


def test_a_step_that_trains_nothing_is_told(dse, tmp_path):
    text = """HloModule m
ENTRY e {
  x = f32[64,16] parameter(0)
  ROOT y = f32[64,16] tanh(x)
}
"""
    assert "No argument was recognised as trained; " in shown(dse, tmp_path, text, "--mesh", "4")
    assert "No argument was recognised as trained" not in shown(dse, tmp_path, MLP, "--mesh", "4")


def test_dimensions_of_dynamic_size_are_said_to_count_at_their_bounds(dse, tmp_path):
    bounded = shown(dse, tmp_path, MLP.replace("f32[64,", "f32[<=64,"), "--mesh", "4")
    assert (
        "8 arrays have dimensions of dynamic size (line 10: f32[<=64,16]); they are counted at their upper bounds"
        in bounded
    )
    fixed = shown(dse, tmp_path, MLP, "--mesh", "4")
    assert "dynamic" not in fixed
    tables = [
        text.partition("Comparison with baselines")[2].partition(" of compute and ")[0] for text in (bounded, fixed)
    ]
    assert tables[0] == tables[1] != ""


def test_an_unknown_number_of_passes_is_told(dse, tmp_path):
    loop = MLP.replace(
        "ENTRY",
        """body {
  p = (s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  ROOT r = (s32[]) tuple(i)
}
condition {
  p = (s32[]) parameter(0)
  ROOT c = pred[] constant(true)
}
ENTRY""",
    ).replace(
        "  zero = f32",
        "  n = s32[] constant(0)\n  s = (s32[]) tuple(n)\n"
        "  wh = (s32[]) while(s), condition=condition, body=body\n  zero = f32",
    )
    assert "wh: the trip count of this loop is unknown; its body is counted once" in shown(dse, tmp_path, loop)


def test_a_pin_that_leaves_no_memory_is_named_as_a_lever(dse, tmp_path):
    (tmp_path / "step.hlo").write_text(MLP)
    limit = ("--mesh", "4", "--memory-gb", str(4_000 / 2**30))
    free = dse("parallel", tmp_path / "step.hlo", *limit, "--quiet")
    assert free.code == 0
    whole = dse("parallel", tmp_path / "step.hlo", *limit, "--pin", "params['w1']=-,-", "--pin", "batch['x']=-,-")
    assert whole.code == 1
    assert "with these pins, " in whole.out
    assert "bytes too few" in whole.out
