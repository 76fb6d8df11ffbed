import pytest

from dse.reproduce.automap.models import step_of


@pytest.fixture(autouse=True)
def steps_that_were_read(monkeypatch):
    """A plan's seconds are with the reading of its step, which takes as long as the rest: here it is read once."""
    monkeypatch.setattr(step_of, "cache_clear", lambda: None)
