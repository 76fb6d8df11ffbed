"""``--on CHIP,CHIP``: one table of chips, best first, and a run directory for each; templates beside data sheets."""

import json
from types import SimpleNamespace

import pytest

from dse.cli.side_by_side import exit_code_of

ASKED = ("llama3-8b", "--accelerators", "16", "--global-batch", "32", "--sequence", "2048")


def test_several_chips_are_one_table_best_first_with_a_run_each(dse, tmp_path):
    answer = dse("plan", *ASKED, "--on", "h100-sxm,b200,tpuv4-phaze", "--out", tmp_path / "runs")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("llama3-8b on 16 b200 is best: ")
    rows = [line.split()[0] for line in lines if line.lstrip().startswith(("h100-sxm ", "b200 ", "tpuv4-phaze "))]
    assert rows == ["b200", "h100-sxm", "tpuv4-phaze"]
    assert "derated" in answer.out
    assert "times are comparable only if" in " ".join(answer.out.split())
    for name in rows:
        assert dse("check", tmp_path / "runs" / name).code == 0


def test_each_row_is_the_answer_of_the_chip_alone(dse):
    together = json.loads(dse("predict", *ASKED, "--on", "h100-sxm,h200-sxm", "--json").out)
    for name, result in together.items():
        alone = json.loads(dse("predict", *ASKED, "--on", name, "--json").out)
        assert result["objective"] == alone["objective"]
        assert result["solution"] == alone["solution"]


def test_a_chip_on_which_nothing_fits_is_a_row_that_says_so(dse):
    answer = dse("plan", "llama3-70b", "--accelerators", "4", "--global-batch", "4", "--on", "tpuv5e,b200")
    assert "nothing fits" in " ".join(answer.out.split())


def test_an_unknown_chip_of_several_is_one_line(dse):
    answer = dse("plan", *ASKED, "--on", "h100-sxm,h100-sx")
    assert answer.code == 2
    (line,) = answer.error_lines
    assert "did you mean h100-sxm?" in line


def test_a_template_has_no_stack_of_its_own(dse):
    answer = dse("predict", *ASKED, "--on", "tpuv4-phaze", "--stack", "torchtitan-2024")
    assert answer.code == 2
    assert "--stack: torchtitan-2024: must be left out" in " ".join(answer.error_lines)


def test_a_step_is_split_over_chips_that_are_known_by_their_data_sheet_alone(dse):
    answer = dse("parallel", "tests/data/hlo/vgg-tiny.hlo", "--mesh", "4", "--accelerator", "mi300x")
    assert answer.code in (0, 2)
    assert answer.code == 0 or "mi300x has no rate for products of fp32" in " ".join(answer.error_lines)


def test_convert_prints_or_writes_the_new_form(dse, tmp_path):
    old = tmp_path / "old.yaml"
    old.write_text(
        "name: mine\ntitle: Mine\npeak_flops: {bf16: {value: 4.0e+14, source: ours}}\n"
        "hbm_gib: {value: 96, source: ours}\nhbm_bytes_per_s: {value: 2.4e+12, source: ours}\n"
        "network: {name: dgx-h100, source: ours}\n",
        encoding="utf-8",
    )
    printed = dse("convert", old).out
    assert printed.startswith("schema: dse.chip/1\nname: mine\n")
    new = tmp_path / "new.yaml"
    assert dse("convert", old, "--out", new).code == 0
    assert new.read_text(encoding="utf-8") == printed
    assert dse("predict", *ASKED, "--on", new).code == 0


def test_files_of_one_name_are_refused_before_any_run(dse, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "chip.yaml").write_text("never read")
    answer = dse("plan", *ASKED, "--on", f"{tmp_path}/a/chip.yaml,{tmp_path}/b/chip.yaml")
    assert answer.code == 2
    (line,) = answer.error_lines
    assert "must have a different file name than" in line


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 1), 0), ((1, 0), 0), ((0, 130), 130), ((1, 1), 1), ((3, 1), 3), ((1, 130), 130)]
)
def test_the_exit_code_of_several_is_that_of_an_interrupt_or_of_any_answer(codes, code):
    answers = {str(at): SimpleNamespace(result=SimpleNamespace(exit_code=each)) for at, each in enumerate(codes)}
    assert exit_code_of(answers) == code
