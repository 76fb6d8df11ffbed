import pytest


@pytest.fixture(scope="session")
def ray_executor():
    """The one private Ray instance of the test session, with two workers."""
    from actors.ray_executor import RayExecutor

    with RayExecutor(2) as executor:
        yield executor
