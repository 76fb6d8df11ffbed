import pytest


@pytest.fixture
def few_steps(monkeypatch):
    """Walks over orders of few steps, for tests of what they lead to rather than of how far they come."""
    monkeypatch.setattr("dse.partition.search.order_search._MAX_STEPS", 50)
