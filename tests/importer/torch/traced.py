"""The training step of a PyTorch module, as users name it."""

from dse.sources.steps import resolve_step, step_of


def torch_step(path, name):
    return step_of(resolve_step(f"{path}:{name}"))
