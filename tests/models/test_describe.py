"""The table of models."""

from dse.sources.describe import HEADERS, describe, describe_model
from dse.sources.workloads import list_models, model


def test_a_row_for_every_model():
    rows = describe()
    assert [row[0] for row in rows] == list_models()
    assert all(len(row) == len(HEADERS) for row in rows)


def test_the_row_of_a_model():
    description = describe_model(model("gpt3-175b"))
    assert description.parameters == 174_615_846_912
    assert description.row() == (
        "gpt3-175b", "96", "12,288", "96", "2,048", "174,615,846,912", "2,204.56", "4 8",
    )  # fmt: skip
