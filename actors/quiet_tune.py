"""Ray Tune as a part of a command: it prints and writes nothing of its own, and leaves Ctrl-C to the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import tune

from actors.environment import environment
from actors.in_band import InBand

_QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_THRESHOLD_S": "60",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Users name files relative to where they have started the command.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}


def run_trials(
    trial: type[tune.Trainable],
    parameters: Mapping[str, Any],
    folder: Path,
    workers: int,
    stopper: tune.Stopper,
    callbacks: Sequence[tune.Callback] = (),
    space: dict[str, Any] | None = None,
    max_failures: int = 0,
    **search: Any,
) -> list[str]:
    """Let Tune run trials until ``stopper`` ends them or none is left. Their actors are reused.

    Args:
        trial: what runs in the actors.
        parameters: what its ``setup`` is given in addition to the configuration of the first trial.
        folder: where Tune may write, in a folder ``trials``.
        workers: actors, of one CPU each.
        stopper: asked all the time.
        callbacks: of Tune.
        space: the configurations, where no searcher suggests them.
        max_failures: how often a trial starts over whose worker has died.
        search: the options of ``tune.TuneConfig`` that say which trials there are.

    Returns:
        The errors of trials that were given up.
    """
    # Left to itself, Tune starts one actor after the other.
    with environment(_QUIET | {"TUNE_MAX_PENDING_TRIALS_PG": str(workers)}):
        results = tune.Tuner(
            tune.with_parameters(trial, **{name: InBand(value) for name, value in parameters.items()}),
            param_space=space,
            tune_config=tune.TuneConfig(
                reuse_actors=True, trial_dirname_creator=lambda trial: str(trial.trial_id), **search
            ),
            run_config=tune.RunConfig(
                name="trials",
                storage_path=str(folder),
                callbacks=list(callbacks),
                verbose=0,
                stop=stopper,
                failure_config=tune.FailureConfig(max_failures=max_failures),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    return [str(error) for error in results.errors]
