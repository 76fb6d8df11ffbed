"""Trained arguments, state and data are told apart by what a step does with them, whatever they are called."""

import gzip
import json
import re
from importlib import resources

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.problem import carried_results
from tests.parallel.problems import DUMPS, MLP

jax = pytest.importorskip("jax")
jnp = jax.numpy

SHAPES = {"w": (16, 16), "b": (16,), "v": (16, 4)}
BATCH = {"x": jax.ShapeDtypeStruct((16, 16), jnp.float32), "y": jax.ShapeDtypeStruct((16, 4), jnp.float32)}


def arrays(dtype=jnp.float32, shapes=None):
    return {name: jax.ShapeDtypeStruct(dims, dtype) for name, dims in (shapes or SHAPES).items()}


def network(p, batch):
    hidden = jnp.tanh(batch["x"] @ p["w"] + p["b"])
    return jnp.mean((hidden @ p["v"] - batch["y"]) ** 2)


def each(function, *trees):
    return jax.tree.map(function, *trees)


def adam(p, m, v, g):
    m = each(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = each(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    return each(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v


def roles(step, *arguments):
    """Of each argument of ``step``, in order; jitted without names that say anything."""
    text = jax.jit(step, keep_unused=True).lower(*arguments).as_text(dialect="hlo")
    text = re.sub(r', metadata=\{op_name="[^"]*"\}', "", text)
    graph = step_graph(parse_hlo(text, "step.hlo"), "step.hlo")
    names = {"parameter": "trained", "state": "kept", "input": "data"}
    return [names[argument.role] for argument in graph.arguments], graph


def flat(*groups):
    return [role for role, count in groups for _ in range(count)]


def test_adam_in_any_order_of_arguments_and_results():
    def step(a, b, c, d):  # v, data, parameters, m
        loss, g = jax.value_and_grad(network)(c, b)
        p, m, v = adam(c, d, a, g)
        return m, loss, v, p

    found, graph = roles(step, arrays(), BATCH, arrays(), arrays())
    assert found == flat(("kept", 3), ("data", 2), ("trained", 3), ("kept", 3))
    assert carried_results(graph) == {0: 8, 1: 9, 2: 10, 4: 0, 5: 1, 6: 2, 7: 5, 8: 6, 9: 7}


def test_without_a_returned_loss():
    def step(p, m, v, batch):
        return adam(p, m, v, jax.grad(network)(p, batch))

    assert roles(step, arrays(), arrays(), arrays(), BATCH)[0] == flat(("trained", 3), ("kept", 6), ("data", 2))


def test_norms_of_updates_and_of_gradients_are_no_loss():
    def step(p, m, v, batch):
        loss, g = jax.value_and_grad(network)(p, batch)
        new, m, v = adam(p, m, v, g)
        norms = [sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)) for tree in (g, each(jnp.subtract, new, p))]
        return new, m, v, norms, loss

    assert roles(step, arrays(), arrays(), arrays(), BATCH)[0] == flat(("trained", 3), ("kept", 6), ("data", 2))


def test_momentum_that_goes_through_products_is_state():
    """Muon: the update is a polynomial of the momentum's matrix."""

    def step(p, m, batch):
        loss, g = jax.value_and_grad(network)(p, batch)
        m = each(lambda m, g: 0.9 * m + g, m, g)
        update = each(lambda m: m if m.ndim < 2 else 1.5 * m - 0.5 * m @ m.T @ m, m)
        return each(lambda p, u: p - 0.1 * u, p, update), m, loss

    assert roles(step, arrays(), arrays(), BATCH)[0] == flat(("trained", 3), ("kept", 3), ("data", 2))


def test_trust_ratios_do_not_make_moments_trained():
    """LAMB."""

    def step(p, m, v, batch):
        loss, g = jax.value_and_grad(network)(p, batch)
        new, m, v = adam(p, m, v, g)
        ratio = each(lambda p, n: jnp.linalg.norm(p) / (jnp.linalg.norm(n - p) + 1e-6), p, new)
        return each(lambda p, n, r: p + r * (n - p), p, new, ratio), m, v, loss

    assert roles(step, arrays(), arrays(), arrays(), BATCH)[0] == flat(("trained", 3), ("kept", 6), ("data", 2))


def test_a_master_copy_is_state_and_its_short_copy_trained():
    def step(short, master, m, batch):
        loss, g = jax.value_and_grad(network)(short, batch)
        m = each(lambda m, g: 0.9 * m + g.astype(jnp.float32), m, g)
        master = each(lambda p, m: p - 0.1 * m, master, m)
        return each(lambda p: p.astype(jnp.bfloat16), master), master, m, loss

    found, _ = roles(step, arrays(jnp.bfloat16), arrays(), arrays(), BATCH)
    assert found == flat(("trained", 3), ("kept", 6), ("data", 2))


def test_averages_and_teachers_are_state():
    def step(p, average, teacher, batch):
        def loss_of(p):
            return network(p, batch) + (network(p, batch) - jax.lax.stop_gradient(network(teacher, batch))) ** 2

        loss, g = jax.value_and_grad(loss_of)(p)
        p = each(lambda p, g: p - 0.1 * g, p, g)
        average, teacher = (each(lambda a, p: 0.99 * a + 0.01 * p, a, p) for a in (average, teacher))
        return p, average, teacher, loss

    assert roles(step, arrays(), arrays(), arrays(), BATCH)[0] == flat(("trained", 3), ("kept", 6), ("data", 2))


def test_running_statistics_and_what_a_network_hands_on_are_state():
    def step(p, mean, hidden, batch):
        def loss_of(p):
            after = 0.5 * hidden + 0.5 * jnp.tanh(batch["x"] @ p["w"])
            return jnp.mean((after @ p["v"] - batch["y"]) ** 2) + jnp.sum(p["b"] ** 2), after

        (loss, after), g = jax.value_and_grad(loss_of, has_aux=True)(p)
        mean = 0.9 * mean + 0.1 * batch["x"].mean(0)
        return each(lambda p, g: p - 0.1 * g, p, g), mean, after, loss

    kept = (jax.ShapeDtypeStruct((16,), jnp.float32), jax.ShapeDtypeStruct((16, 16), jnp.float32))
    assert roles(step, arrays(), *kept, BATCH)[0] == flat(("trained", 3), ("kept", 2), ("data", 2))


def test_frozen_weights_that_are_returned_are_state_and_data_of_a_weights_shape_is_data():
    def step(frozen, p, batch):
        loss, g = jax.value_and_grad(lambda p: network({**p, "w": frozen}, batch))(p)
        return frozen, each(lambda p, g: p - 0.1 * g, p, g), loss

    p = arrays(shapes={name: SHAPES[name] for name in "bv"})
    assert roles(step, arrays()["w"], p, BATCH)[0] == flat(("kept", 1), ("trained", 2), ("data", 2))


def test_counters_are_state_and_a_rate_is_data():
    def step(p, gain, count, rate, batch):
        loss, g = jax.value_and_grad(lambda of: of[1] * network(of[0], batch))((p, gain))
        p, gain = each(lambda p, g: p - rate * g / jnp.sqrt(1.0 + count), (p, gain), g)
        return p, gain, count + 1, loss

    number = jax.ShapeDtypeStruct((), jnp.float32)
    found, _ = roles(step, arrays(), number, jax.ShapeDtypeStruct((), jnp.int32), number, BATCH)
    assert found == flat(("trained", 4), ("kept", 1), ("data", 3))


def test_weights_stacked_for_a_loop_are_trained():
    def step(p, batch):
        def loss_of(p):
            hidden, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), batch["x"], p)
            return jnp.mean(hidden**2)

        loss, g = jax.value_and_grad(loss_of)(p)
        return p - 0.1 * g, loss

    stacked = jax.ShapeDtypeStruct((4, 16, 16), jnp.float32)
    assert roles(step, stacked, BATCH)[0] == flat(("trained", 1), ("data", 2))


def test_of_a_step_that_returns_gradients_names_decide():
    def gradients(params, batch):
        return jax.value_and_grad(network)(params, batch)

    text = jax.jit(gradients).lower(arrays(), BATCH).as_text(dialect="hlo")
    graph = step_graph(parse_hlo(text, "step.hlo"), "step.hlo")
    assert [each.role for each in graph.arguments] == ["parameter"] * 3 + ["input"] * 2


@pytest.mark.parametrize("name", ["dlrm-tiny.hlo", "vgg-tiny.hlo", "rare.hlo", "vgg-tiny.opt.hlo", "vgg19", "t5-6"])
def test_names_say_the_same_of_real_steps(name):
    """The names of these steps are right."""
    if "." in name:
        text = (DUMPS / name).read_text()
    else:
        dumps = resources.files("dse.reproduce.automap").joinpath("dumps", f"{name}.hlo.gz")
        text = gzip.decompress(dumps.read_bytes()).decode()
    graph = step_graph(parse_hlo(text, name), name)
    expected = {
        "params": "parameter",
        "parameters": "parameter",
        "moments": "state",
        "state": "state",
        "batch": "input",
    }
    assert {each.name: each.role for each in graph.arguments} == {
        each.name: expected[each.name.partition("[")[0]] for each in graph.arguments
    }


def test_vgg_splits_as_many_dimensions_by_any_names(dse, tmp_path):
    dumps = resources.files("dse.reproduce.automap").joinpath("dumps", "vgg19.hlo.gz")
    text = gzip.decompress(dumps.read_bytes()).decode()
    for old, new in (("params", "P__"), ("moments['mean']", "M__"), ("moments['square']", "V__"), ("batch", "D__")):
        for quote in ("'", "\\'"):
            text = text.replace(f'op_name="{old}'.replace("'", quote), f'op_name="{new}')
    assert "params[" not in text
    (tmp_path / "vgg.hlo").write_text(text)
    answer = dse("parallel", tmp_path / "vgg.hlo", "--objective", "count", "--json")
    assert json.loads(answer.out)["objective"]["value"] == 29


def test_the_answer_says_what_was_taken_for_what(dse, tmp_path):
    (tmp_path / "mlp.hlo").write_text(MLP.replace("params", "alpha"))
    answer = dse("parallel", tmp_path / "mlp.hlo", "--mesh", "2", "--notes")
    shown = " ".join(answer.out.split())
    assert "2 trained (alpha['w1'], alpha['w2']); 2 data (batch['x'], batch['y'])" in shown
