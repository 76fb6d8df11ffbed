"""The template of ``plan_torch.py``: a plan without parameters on no devices."""

import copy
from collections import Counter
from contextlib import contextmanager
from functools import cache

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import DataParallelMeshDims, fully_shard
from torch.distributed.tensor import DTensor, Partial, distribute_tensor
from torch.distributed.tensor import Replicate as R
from torch.distributed.tensor import Shard as S
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional
from torch.overrides import TorchFunctionMode

AXES = ()
SIZES = ()

PARAMETERS = {}
"""The layout of each parameter, which its moments take too: along each axis the dimension that it splits, or R()."""

USED = {}
"""Parameters that the forward pass takes in another layout, such as gathered ones."""

SHARDED = {}
"""Parameters that fully_shard gathers along an axis of the mesh, and whose gradients it reduce-scatters: that axis, and
whether they are gathered again for the backward pass.
"""

TAKEN = {}
"""By module and number of dimensions the layout in which it takes its input."""

LEFT = {}
"""By module and number of dimensions the layout in which its output is handed on."""

STYLES = {}
"""Modules whose part of the plan is one of PyTorch's own styles of tensor parallelism."""

INPUTS = {}
"""The layout of each input of the step."""

BY_SAMPLE = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.GroupNorm)
BY_SAMPLE += (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
BY_SAMPLE += (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
ELEMENTWISE_LOSSES = (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss)
ELEMENTWISE_LOSSES += (functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits)

LOCAL = (
    *BY_SAMPLE,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.RNNBase,
    nn.MultiheadAttention,
)
"""Modules that run on plain tensors: what DTensor does not split. The first ones treat every sample alone."""


class Planned:
    """One module by the plan: its parameters, and the layouts of its input and output."""

    def __init__(self, path, sharded):
        self.path = path
        self.sharded = sharded

    def __call__(self, module, device_mesh):
        whole = (R(),) * len(AXES)
        for name, parameter in module.named_parameters(recurse=False):
            if not isinstance(parameter, DTensor):
                layouts = USED if self._full(name) in self.sharded else PARAMETERS
                spread = distribute_tensor(parameter, device_mesh, layouts.get(self._full(name), whole))
                module.register_parameter(name, torch.nn.Parameter(spread, parameter.requires_grad))
        for name, buffer in module.named_buffers(recurse=False):
            if not isinstance(buffer, DTensor):
                keeps = name in module.state_dict()
                module.register_buffer(name, distribute_tensor(buffer, device_mesh, whole), persistent=keeps)
        if isinstance(module, LOCAL):
            module.forward = _local(module)
        elif any(self._full(name) in USED for name, _ in module.named_parameters(recurse=False)):
            module.forward = self._gathering(module)
        if self.path in TAKEN:
            module.register_forward_pre_hook(lambda _, args: _brought(args, TAKEN[self.path]))
        if self.path in LEFT:
            module.register_forward_hook(lambda _, __, output: _brought(output, LEFT[self.path]))
        return module

    def _full(self, name):
        return f"{self.path}.{name}" if self.path else name

    def _gathering(self, module):
        """The module's forward with parameters in the layouts of :data:`USED`; gradients come back in their own."""
        forward = module.forward

        def run(*args, **kwargs):
            own = {name: self._full(name) for name, _ in module.named_parameters(recurse=False)}
            used = {
                (module, name): getattr(module, name).redistribute(placements=USED[full])
                for name, full in own.items()
                if full in USED and full not in self.sharded
            }
            with _holding(used):
                return forward(*args, **kwargs)

        return run


@cache
def mesh(device_type="cuda"):
    """The mesh of the plan over the ranks of the process group: the same one each time, as fully_shard needs it."""
    return init_device_mesh(device_type, SIZES, mesh_dim_names=AXES)


def apply(model, on=None):
    """``model`` by the plan: its parameters and buffers become DTensors, of which optimizers are made.

    What the model computes stays the same, regardless of the layouts: DTensor brings operands together. A gradient is
    summed, and left in the layout of its parameter.

    Args:
        model: the module that the plan was made for, the same on all ranks, or on the meta device.
        on: the mesh; that of :func:`mesh` by default.
    """
    on = mesh() if on is None else on
    alone = Counter(each for _, each in model.named_parameters(remove_duplicate=False))
    sharded = {name: how for name, how in SHARDED.items() if alone[model.get_parameter(name)] == 1}
    shared = {}
    for path, module in list(model.named_modules()):
        for name, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if parameter in shared:  # is in two modules
                setattr(module, name, shared[parameter])
        before = dict(module.named_parameters(recurse=False))
        if path in STYLES:
            parallelize_module(module, on, STYLES[path])
        else:
            Planned(path, sharded)(module, on)
        module.register_forward_hook(_gradients_joined)
        shared |= {each: getattr(module, name) for name, each in before.items()}
    _shard(model, on, sharded)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient, of=parameter: gradient.redistribute(placements=of.placements))
    forward = model.forward

    def run(*args, **kwargs):
        with implicit_replication(), _Functions():  # tensors that the model makes itself are the same on all ranks
            return _mapped(DTensor, _joined, forward(*args, **kwargs))

    model.forward = run
    return model


def distributed(inputs, on=None):
    """Inputs by their names, whole on all ranks, as DTensors in the layouts of the plan."""
    on = mesh() if on is None else on
    whole = (R(),) * len(AXES)
    return {name: distribute_tensor(each, on, INPUTS.get(name, whole)) for name, each in inputs.items()}


def _shard(model, on, sharded):
    """Parameters by fully_shard: gathered for the forward pass, and where the plan does so again for the backward pass.

    Each module is a group of its own, and the model the root of all, which lets groups be gathered ahead. A gradient is
    the sum of what all ranks have, which fully_shard would divide by their number.

    Args:
        model: its parameters are DTensors, those that are to be split whole along their axis.
        on: the mesh.
        sharded: as :data:`SHARDED`, whose values are the same for all parameters of a module.
    """
    modules = {}
    for name in sharded:
        modules.setdefault(name.rpartition(".")[0], []).append(name.rpartition(".")[2])
    for path in sorted(modules, reverse=True):  # inner modules first
        module, (axis, is_gathered_again) = model.get_submodule(path), sharded[f"{path}.{modules[path][0]}"]
        place = AXES.index(axis)
        layouts = {module.get_parameter(name): PARAMETERS[f"{path}.{name}"][place] for name in modules[path]}
        fully_shard(
            module,
            mesh=on,
            dp_mesh_dims=DataParallelMeshDims(shard=axis),
            reshard_after_forward=is_gathered_again,
            shard_placement_fn=layouts.get,
            ignored_params=set(module.parameters()) - set(layouts),
        )
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # as gloo knows no other one
        module.register_forward_pre_hook(_terms_of(modules[path], place))
    if modules:
        dims = DataParallelMeshDims(shard=AXES[0])
        fully_shard(model, mesh=on, dp_mesh_dims=dims, ignored_params=set(model.parameters()))


def _terms_of(names, axis):
    """A hook for a module that fully_shard has gathered: gradients of parameters are to be terms along ``axis``."""
    hooked = set()

    def run(module, _):
        for parameter in map(module.get_parameter, names):
            if parameter.requires_grad and parameter not in hooked:
                hooked.add(parameter)
                parameter.register_hook(lambda gradient: _as_terms(gradient, axis))

    return run


def _as_terms(gradient, axis):
    """A gradient as terms of a sum along an axis of the mesh, of which each rank has one."""
    if gradient.placements[axis].is_partial():
        return gradient
    whole = tuple(R() if place == axis else each for place, each in enumerate(gradient.placements))
    terms = tuple(Partial() if place == axis else each for place, each in enumerate(whole))
    part = gradient.redistribute(placements=whole).to_local() / SIZES[axis]
    return DTensor.from_local(
        part, gradient.device_mesh, terms, run_check=False, shape=gradient.shape, stride=gradient.stride()
    )


def _gradients_joined(_module, _args, output):
    """The gradient of an output is summed where it stands as terms: not all that lies before takes terms."""

    def hooked(tensor):
        if tensor.requires_grad:
            tensor.register_hook(_joined)
        return tensor

    return _mapped(DTensor, hooked, output)


def _joined(tensor):
    """Terms of a sum summed: the gradient of a loss must start from the loss itself."""
    return tensor.redistribute(placements=tuple(R() if each.is_partial() else each for each in tensor.placements))


@contextmanager
def _holding(tensors):
    """Modules with other tensors in place of some parameters and buffers: by (module, name)."""
    before = {module: _held_by(module) for module, _ in tensors}
    for (module, name), each in tensors.items():
        delattr(module, name)
        vars(module)[name] = each
    try:
        yield
    finally:
        for module, (parameters, buffers) in before.items():
            for name in (*parameters, *buffers):  # all of them, or their order would change
                if name in vars(module):
                    del vars(module)[name]
                else:
                    delattr(module, name)
            for name, each in parameters.items():
                module.register_parameter(name, each)
            for name, (each, keeps) in buffers.items():
                module.register_buffer(name, each, persistent=keeps)


def _held_by(module):
    """The parameters of a module, and its buffers with whether its state has them."""
    buffers = dict(module.named_buffers(recurse=False, remove_duplicate=False))
    kept = module.state_dict() if buffers else ()
    parameters = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    return parameters, {name: (each, name in kept) for name, each in buffers.items()}


def _mapped(kind, function, tree):
    """Nested tuples, lists and dictionaries with ``function`` of all that is of a kind in its place."""
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, dict):  # what models of transformers return is one, with attributes
        new = copy.copy(tree)
        for key, value in tree.items():
            new[key] = _mapped(kind, function, value)
        return new
    if isinstance(tree, tuple | list):
        parts = [_mapped(kind, function, each) for each in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _local(module):
    """The module's forward on plain tensors: each rank has its samples, or all of them, and the whole parameters.

    For modules whose operators DTensor does not split rightly or at all.
    """
    forward = module.forward

    def run(*args, **kwargs):
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, DTensor)]
        if not given:
            return forward(*args, **kwargs)
        on, samples = given[0].device_mesh, isinstance(module, BY_SAMPLE)
        layout = tuple(each if samples and each == S(0) else R() for each in given[0].placements)
        gradients = tuple(Partial() if each == S(0) else each for each in layout)
        held = {}
        for part in module.modules():
            for name, each in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
                whole = each if _is_whole(each) else each.redistribute(placements=(R(),) * len(AXES))
                held[part, name] = whole.to_local(grad_placements=gradients)
        args, kwargs = _mapped(
            DTensor, lambda each: each.redistribute(placements=layout).to_local(), (args, kwargs)
        )  # fmt: skip
        with _holding(held):
            output = forward(*args, **kwargs)
        return _mapped(torch.Tensor, lambda each: DTensor.from_local(each, on, layout, run_check=False), output)

    return run


def _is_whole(tensor):
    return all(each == R() for each in tensor.placements)


class _Functions(TorchFunctionMode):
    """Functions of PyTorch that are right on DTensors in another form alone."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if not args or not isinstance(args[0], DTensor):
            return function(*args, **kwargs)
        if function in ELEMENTWISE_LOSSES:  # gradients of a mean are divided by the elements of a rank
            reduction = kwargs.pop("reduction", "mean")
            losses = function(*args, **kwargs, reduction="none")
            return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()
        if function is functional.scaled_dot_product_attention:
            return _attention(args, kwargs)
        return function(*args, **kwargs)


def _attention(args, kwargs):
    """Attention on plain tensors: each rank has its samples and heads."""
    on, rank = args[0].device_mesh, args[0].ndim
    layout = tuple(each if each in (S(0), S(1)) and rank == 4 else R() for each in args[0].placements)

    def part(each):
        whole = each if isinstance(each, DTensor) else DTensor.from_local(each, on, (R(),) * len(AXES))
        ones = rank - each.ndim  # dimensions that are not there, or broadcast
        placements = tuple(
            S(to.dim - ones) if to != R() and to.dim >= ones and each.shape[to.dim - ones] > 1 else R() for to in layout
        )
        return whole.redistribute(placements=placements).to_local()

    args, kwargs = _mapped(torch.Tensor, part, (args, kwargs))
    output = functional.scaled_dot_product_attention(*args, **kwargs)
    return DTensor.from_local(output, on, layout, run_check=False)


def _brought(tree, layouts):
    """DTensors of a tuple, or a single one, in the layout that ``layouts`` has for their number of dimensions."""
    if isinstance(tree, tuple | list):
        return type(tree)(_brought(each, layouts) for each in tree)
    if isinstance(tree, DTensor) and tree.ndim in layouts:
        return tree.redistribute(placements=layouts[tree.ndim])
    return tree
