"""A step that is not one: it is refused by every strategy before anything is priced."""

import pytest

from tests.parallel.problems import MLP

BEYOND = MLP.replace("lhs_contracting_dims={1}", "lhs_contracting_dims={1000}", 1)


@pytest.mark.parametrize("strategy", ["sharding", "pipeline", "hybrid", "all"])
def test_a_product_over_a_dimension_that_is_not_there_is_refused_with_its_rule(dse, tmp_path, strategy):
    (tmp_path / "step.hlo").write_text(BEYOND)
    refused = dse("parallel", tmp_path / "step.hlo", "--mesh", 4, "--strategy", strategy, "--quiet")
    assert refused.code == 2
    (line,) = refused.error_lines
    assert "dot: batch and contracting dimensions must be dimensions of the operands" in line
