"""A mesh of devices in numpy: what each holds, and what collectives make of it. Shares no code with the product."""

import itertools

import numpy as np


def coordinates(mesh):
    """The place of every device along each axis."""
    return list(itertools.product(*(range(axis.size) for axis in mesh.axes)))


def held(array, layout, mesh, place):
    """The part of ``array`` that a device holds: of a dimension that several axes split, the first is outermost."""
    for dim in range(array.ndim):
        parts, number = 1, 0
        for axis, split, at in zip(mesh.axes, layout, place, strict=True):
            if split == dim:
                parts, number = parts * axis.size, number * axis.size + at
        size = array.shape[dim] // parts
        array = np.take(array, range(number * size, (number + 1) * size), axis=dim)
    return array


def spread(array, layout, mesh):
    """Every device's part."""
    return {place: held(array, layout, mesh, place) for place in coordinates(mesh)}


def group(parts, axis, place):
    """What the devices along ``axis`` hold, in order, of the group that ``place`` belongs to."""
    along = sorted(other for other in parts if other[:axis] + other[axis + 1 :] == place[:axis] + place[axis + 1 :])
    return [parts[other] for other in along]


def all_gather(parts, axis, dim):
    return {place: np.concatenate(group(parts, axis, place), dim) for place in parts}


def all_to_all(parts, axis, size, before, after):
    """Each device hands on one part along ``after`` to each other, and joins what it gets along ``before``."""
    return {
        place: np.concatenate([np.split(each, size, after)[place[axis]] for each in group(parts, axis, place)], before)
        for place in parts
    }


def own_slice(parts, axis, size, dim):
    return {place: np.split(each, size, dim)[place[axis]] for place, each in parts.items()}


def all_reduce(parts, axis):
    return {place: sum(group(parts, axis, place)) for place in parts}


def reduce_scatter(parts, axis, size, dim):
    return own_slice(all_reduce(parts, axis), axis, size, dim)
