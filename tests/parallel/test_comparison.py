"""``dse compare`` of parallel plans: which tensors are split otherwise, and what that changes."""

import json

from dse.parallel.comparison import compared
from dse.results.result import read_result
from tests.parallel.problems import MLP


def finished(dse, tmp_path, name, *asked):
    (tmp_path / "step.hlo").write_text(MLP)
    directory = tmp_path / name
    answer = dse("parallel", tmp_path / "step.hlo", "--mesh", "4", "--out", directory, "--quiet", *asked)
    assert answer.code in (0, 1)
    return directory


def test_only_tensors_that_are_split_otherwise_are_listed(dse, tmp_path):
    rows = finished(dse, tmp_path, "rows", "--pin", "params['w1']=model,-", "--pin", "params['w2']=-,-")
    whole = finished(dse, tmp_path, "whole", "--pin", "params['w1']=-,-", "--pin", "params['w2']=-,-")
    answer = dse("compare", rows, whole, "--json")
    found = json.loads(answer.out)["found"]
    assert found["split of params['w1']"] == ["(model, -)", "(-, -)"]
    assert not any(key.startswith("operations") or "w2" in key for key in found)
    results = [read_result(each / "result.json") for each in (rows, whole)]
    assert found["state_bytes"] == [each.metrics["state_bytes"] for each in results]
    sent = [sum(one["bytes"] for one in each.metrics["collectives"]) for each in results]
    listed = {key: values for key, values in compared(results).items() if " along " in key}
    assert [sum(values[number] for values in listed.values()) for number in (0, 1)] == sent
    assert sum(sent) > 0
    assert "split of params['w1']" in dse("compare", rows, whole).out


def test_a_plan_beside_none(dse, tmp_path):
    plan = finished(dse, tmp_path, "plan")
    none = finished(dse, tmp_path, "none", "--memory-gb", "1e-9")
    found = json.loads(dse("compare", plan, none, "--json").out)["found"]
    assert found["status"] == ["optimal", "infeasible"]
    assert found["mesh"] == ["model=4", None]
    assert found["infeasibility limit"][0] is None


def test_moments_share_a_row_with_their_tensor_where_all_are_split_alike(dse, tmp_path):
    text = MLP.replace(
        "  h = ", "  m = f32[16,32] parameter(4), metadata={op_name=\"moments['mean']['w1']\"}\n  h = ", 1
    )
    (tmp_path / "step.hlo").write_text(text)
    for name, axis in (("one", "-"), ("other", "model")):
        pins = [
            each for tensor in ("params['w1']", "moments['mean']['w1']") for each in ("--pin", f"{tensor}={axis},-")
        ]
        asked = (tmp_path / "step.hlo", "--mesh", "4", *pins, "--out", tmp_path / name, "--quiet")
        assert dse("parallel", *asked).code == 0
    found = json.loads(dse("compare", tmp_path / "one", tmp_path / "other", "--json").out)["found"]
    assert found["split of params['w1'] and 1 more"] == ["(-, -)", "(model, -)"]
