"""What the floors above the engine add to the problems' methods: learned ones, and searches driven by Ray Tune."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from dse.problem import Methods
from dse.run.directory import TUNE_FOLDER
from dse.run.executor import Executor, InProcessExecutor

if TYPE_CHECKING:
    from policies.fabric.methods import LearnedFor

OptionsT = TypeVar("OptionsT")


def upper_methods(problem: str, options: Any, executor: Executor, directory: Path | None) -> Methods:
    """Methods of ``problem`` from above, by name; none for a problem that has none there."""
    return _UPPER[problem](options, executor, directory) if problem in _UPPER else {}


def with_upper_defaults(problem: str, options: OptionsT) -> OptionsT:
    """The options, with those that are left to a file of the floors above (how a policy was trained to cut devices).

    Raises:
        InputError: there is no such file, or what reads it is not installed.
    """
    return _DEFAULTS[problem](options) if problem in _DEFAULTS else options


def upper_document(problem: str, options: Any) -> Any:
    """What files of the floors above contain and the answer depends on: the digest of a checkpoint's weights."""
    return _DOCUMENTS[problem](options) if problem in _DOCUMENTS else None


def _partition_document(options: Any) -> str | None:
    if options.checkpoint is None:
        return None
    from policies.partition.methods import weights_digest

    return weights_digest(options.checkpoint)


def _parallel_document(options: Any) -> str | None:
    if options.method != "inference":
        return None
    from policies.parallel.pipeline.methods import weights_digest

    return weights_digest(options.checkpoint)


def _parallel_defaults(options: Any) -> Any:
    if (options.strategy, options.method, options.device_cuts) != ("pipeline", "inference", "auto"):
        return options
    from policies.parallel.pipeline.methods import own_cutting

    return replace(options, device_cuts=own_cutting(options) or options.device_cuts)


def _fabric_document(options: Any) -> str | None:
    from dse.fabric.methods import LEARNED, LEARNED_SIMULATED

    if options.cost not in (LEARNED, LEARNED_SIMULATED):
        return None
    from policies.fabric.methods import weights_digest

    return weights_digest(None if options.checkpoint is None else Path(options.checkpoint), options.cost)


def _fabric_defaults(options: Any) -> Any:
    """Chains follow a student where there is one for the fabric that did not place worse than the rules at the end of
    its training, and where no rules are named to follow instead.
    """
    from dse.fabric.methods import LEARNED_SIMULATED

    if not _is_free(options):
        return options
    learned = _learned_for(options)
    is_followed = learned.student() is not None and not learned.objection()
    return replace(options, cost=LEARNED_SIMULATED) if is_followed else options


def _is_free(options: Any) -> bool:
    """Whether neither a cost nor rules are named."""
    from dse.fabric.methods import AUTO

    return bool(options.cost == AUTO and options.tuned is None)


def _learned_for(options: Any) -> "LearnedFor":
    from policies.fabric.methods import LearnedFor

    checkpoint = None if options.checkpoint is None else Path(options.checkpoint)
    return LearnedFor(checkpoint, options.fabric, options.slots)


def _partition(options: Any, _executor: Executor, _directory: Path | None) -> Methods:
    """The learned policies; nothing where every method is to run and they are not installed."""
    from dse.partition.methods import ALL
    from policies.partition.methods import is_installed, learned_methods

    if options.method == ALL and not is_installed():
        return {}
    return learned_methods(None if options.checkpoint is None else Path(options.checkpoint))


def _fabric(options: Any, _executor: Executor, _directory: Path | None) -> Methods:
    """The learned costs; and the simulator's, where it says why no student was followed."""
    from policies.fabric.methods import default_costs, learned_costs

    learned = _learned_for(options)
    costs = learned_costs(learned)
    return {**costs, **default_costs(learned)} if _is_free(options) else costs


def _codesign(_options: Any, executor: Executor, directory: Path | None) -> Methods:
    """Where there are workers, Tune drives the searches that propose architectures in sequence."""
    if isinstance(executor, InProcessExecutor):
        return {}
    from actors.tune_sweep import drivers

    return drivers(None if directory is None else directory / TUNE_FOLDER)


def _parallel(options: Any, _executor: Executor, _directory: Path | None) -> Methods:
    """The learned methods of the strategy."""
    if options.strategy == "sharding":
        from policies.parallel.linkage.methods import learned_methods as of_sharding

        return of_sharding(options.decide)
    if options.strategy in ("hybrid", "all"):
        return {}
    from policies.parallel.pipeline.methods import learned_methods

    return learned_methods(None if options.checkpoint is None else Path(options.checkpoint))


_UPPER: Mapping[str, Callable[[Any, Executor, Path | None], Methods]] = MappingProxyType(
    {"partition": _partition, "codesign": _codesign, "fabric": _fabric, "parallel": _parallel}
)

_DOCUMENTS: Mapping[str, Callable[[Any], str | None]] = MappingProxyType(
    {"partition": _partition_document, "fabric": _fabric_document, "parallel": _parallel_document}
)

_DEFAULTS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"parallel": _parallel_defaults, "fabric": _fabric_defaults}
)
