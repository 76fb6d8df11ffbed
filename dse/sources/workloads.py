"""Sources as what trains: hyper-parameters, and workloads of ``dse codesign``."""

import os

from dse.models.hyperparameters import Hyperparameters
from dse.models.workload import BuiltModel, Workload
from dse.sources.imported import ImportedModel
from dse.sources.kinds import CatalogueNetwork, HyperparameterModel, ProblemInput, Traceable
from dse.sources.resolve import list_models, resolve
from dse.sources.traces import own_sequence, takes_sequence
from hardware.inputs import fail

__all__ = ["list_models", "model", "workload"]


def model(source: str | os.PathLike[str]) -> Hyperparameters:
    """The hyper-parameters of a built-in model by name, or those in a file.

    Raises:
        InputError: no model of this name (the nearest one is offered), an unreadable file, any fault in it, or a source
            of another kind.
    """
    resolved = resolve(source)
    if not isinstance(resolved, HyperparameterModel):
        raise fail(str(source), "", "", "must be hyper-parameters: a YAML file or a built-in name")
    return resolved.hyperparameters


def workload(source: object, sequence: int | None = None) -> Workload:
    """What trains.

    Args:
        source: what :func:`~dse.sources.resolve.resolve` takes, but for networks of the catalogue.
        sequence: tokens of a sample, for a source that lets one choose.

    Raises:
        InputError: a source that cannot be resolved, or a sequence length for one that has its own. Imported models are
            traced, and refused, when their graph is first needed.
    """
    resolved = resolve(source)
    assert not isinstance(resolved, ProblemInput)  # no format of a problem's own was handed over
    if not isinstance(resolved, HyperparameterModel):
        return imported(resolved, sequence)
    if sequence is not None:
        raise own_sequence(resolved, sequence)
    return BuiltModel(resolved.hyperparameters)


def imported(source: CatalogueNetwork | Traceable, sequence: int | None = None) -> ImportedModel:
    """A model that is traced to train.

    Raises:
        InputError: a network of the catalogue, or a sequence length for a source that has its own.
    """
    if isinstance(source, CatalogueNetwork):
        rule = "catalogue networks support only inference; for training, give the network as FILE.py:FUNCTION"
        raise fail(source.where, "", "", rule)
    if sequence is not None and not takes_sequence(source):
        raise own_sequence(source, sequence)
    return ImportedModel(source, sequence)
