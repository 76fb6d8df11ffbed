"""What Tune does otherwise as a part of a command."""

from ray import tune
from ray.tune.execution.class_cache import _ActorClassCache

from actors.quiet_tune import quiet_tune


class Trial(tune.Trainable):
    """Never started."""


def environment_of(actors):
    """The runtime environment in which Tune would start actors of :class:`Trial`."""
    return actors.get(Trial)._default_options.get("runtime_env")


def test_trials_run_in_workers_of_no_environment_of_their_own():
    assert environment_of(_ActorClassCache())
    with quiet_tune(1):
        actors = _ActorClassCache()
        assert environment_of(actors) is None
        assert actors.get(Trial) is actors.get(Trial)
    assert environment_of(_ActorClassCache())
