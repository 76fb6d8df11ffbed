import pytest


@pytest.fixture(scope="session")
def ray_executor():
    """The one private Ray instance of the test session, with two workers."""
    from actors.ray_executor import RayExecutor

    with RayExecutor(2) as executor:
        yield executor


@pytest.fixture
def dse(monkeypatch, capsys):
    """The command line: ``dse("place", "x.json")`` gives exit code, stdout and stderr."""
    from tests.command_line import CommandLine

    return CommandLine(monkeypatch, capsys)
