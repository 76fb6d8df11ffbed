import pytest

from dse.reproduce.automap.models import step_of


@pytest.fixture(autouse=True)
def steps_that_were_read(monkeypatch):
    """A plan's seconds are with the reading of its step, which takes as long as the rest: here it is read once."""
    monkeypatch.setattr(step_of, "cache_clear", lambda: None)


@pytest.fixture
def few_steps(monkeypatch):
    """Walks over orders of few steps, for tests of what is made of what they find."""
    monkeypatch.setattr("dse.partition.search.order_search._MAX_STEPS", 50)
