"""Training steps as sources: files, functions, objects; and one clear line for what is none."""

import json
import sys
from pathlib import Path

import pytest

from dse.graph.step import StepGraph
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.importer.user_function import answered
from dse.sources.kinds import PythonFunction
from dse.sources.steps import resolve_step, step_of, with_variables
from hardware.inputs import InputError
from tests.parallel.problems import MLP
from tests.sources.step_functions import FUNCTIONS

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "step.py"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.hlo").write_text(MLP)
    (tmp_path / "dump-without-suffix").write_text(MLP)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "empty").mkdir()
    return tmp_path


def line_of(source):
    with pytest.raises(InputError) as error:
        step_of(resolve_step(source))
    assert len(error.value.faults) == 1
    return str(error.value)


def test_a_file_of_any_name_and_a_graph_are_steps(folder):
    graph = step_of(resolve_step("step.hlo"))
    assert graph == step_graph(parse_hlo(MLP, ""), "")
    for source in (folder / "step.hlo", "dump-without-suffix", graph):
        assert step_of(resolve_step(source)) == graph


@pytest.mark.parametrize("name", ["perceptron", "packed"])
def test_a_module_with_its_inputs_is_the_step_of_the_function_that_returns_them(name):
    torch = pytest.importorskip("torch")
    from tests.importer.torch import steps

    module, inputs, *targets = getattr(steps, name)()
    loss = [steps.loss] if targets else []
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    graph = step_of(resolve_step((module, inputs, *targets, *loss)))
    expected = step_of(resolve_step(f"{steps.__file__}:{name}"))
    assert (graph.values, graph.operations, graph.arguments) == (
        expected.values, expected.operations, expected.arguments
    )  # fmt: skip
    assert all(torch.equal(tensor, before[key]) for key, tensor in module.state_dict().items())
    line = line_of((module, inputs, None, None, "adam"))
    assert line == "step: 5: must be (module, inputs, targets, loss) at most"


def test_a_function_of_jax_with_its_arguments_is_a_step(folder):
    pytest.importorskip("jax")
    import jax.numpy as jnp

    def step(weight, image):
        return weight - image.T @ (image @ weight), jnp.sum(image @ weight)

    graph = step_of(resolve_step((step, jnp.ones((8, 4)), jnp.ones((16, 8)))))
    assert [argument.name for argument in graph.arguments] == ["weight", "image"]
    assert sum(each.opcode == "dot" for each in graph.operations) >= 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("step.hl", "step: step.hl: no such file; must be a file with HLO"),
        ("step.hl", "(text or JSON), StableHLO or an IOPDDL problem, or FILE.py:FUNCTION"),
        ("step.hl", "(did you mean step.hlo?)"),
        ("empty/step.hlo", "no such file"),
        ("gone/step.hlo", "no such file"),
        ("a\0b", "no such file"),
        ("x" * 5_000, "no such file"),
        ("empty", "empty: must be a file, not a folder"),
        ("functions.py", "functions.py: must be FILE.py:FUNCTION"),
        ("functions.py:two words", "two words: must be FILE.py:FUNCTION"),
        ("gone.py:step", "gone.py: cannot be read: no such file"),
        (3, "step: int: must be a file with HLO"),
    ],
)
def test_what_is_no_step_gets_one_line(source, words):
    assert words in line_of(source)


def test_without_jax_its_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert isinstance(resolve_step("functions.py:step"), PythonFunction)
    # The user's code runs in a process of its own, which has JAX: this is what it does there.
    request = {"kind": "step", "path": str(folder / "functions.py"), "function": "step"}
    (fault,) = answered(request)["faults"]
    assert fault["file"] == str(folder / "functions.py")
    assert fault["rule"].startswith("requires JAX: pip install '")
    assert fault["rule"].endswith("[jax]'")


@pytest.mark.parametrize("arguments", ["params, batch", "*trees", "state, batch"])
def test_a_function_gives_the_step_that_its_dump_gives(folder, arguments):
    jax = pytest.importorskip("jax")
    name = {"params, batch": "step", "*trees": "unnamed", "state, batch": "stateful"}[arguments]
    graph = step_of(resolve_step(f"functions.py:{name}"))
    assert isinstance(graph, StepGraph)
    namespace = {}
    exec(FUNCTIONS, namespace)  # the user's file
    step, *shapes = namespace[name]()
    lowered = (step if hasattr(step, "lower") else jax.jit(step)).lower(*shapes)
    (folder / "dump.hlo").write_text(lowered.compiler_ir("hlo").get_hlo_module().to_string())
    assert step_of(resolve_step("dump.hlo")) == graph
    assert step_of(resolve_step(lowered)) == graph
    assert [each.role for each in graph.arguments if len(graph.values[each.value].dims) == 2] == [
        *["parameter"] * 2,
        *["input"] * 2,
    ]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("shapes", "functions.py: line 6: TypeError: dot_general"),
        ("number", "number: int: the function must return (step, *arguments)"),
        ("pair", "pair: (int, int): the function must return (step, *arguments)"),
        ("needs", "needs: size: the function must have no parameters"),
        ("stp", "(did you mean step?)"),
        ("branches", "TracerBoolConversionError"),
    ],
)
def test_a_function_that_gives_no_step_gets_one_line(function, words):
    pytest.importorskip("jax")
    assert words in line_of(f"functions.py:{function}")


def test_the_example_of_the_documents_is_a_step():
    pytest.importorskip("jax")
    graph = step_of(resolve_step(f"{EXAMPLE}:step"))
    assert [each.role for each in graph.arguments] == ["parameter"] * 2 + ["state"] * 2 + ["input"] * 2


def test_what_is_trained_can_be_listed(folder):
    graph = step_of(resolve_step("step.hlo"))
    (folder / "variables.txt").write_text("params['w2']\n\n")
    listed = with_variables(graph, folder / "variables.txt")
    assert {each.name: each.role for each in listed.arguments} == {
        "params['w1']": "state",  # the step returns it
        "params['w2']": "parameter",
        "batch['x']": "input",
        "batch['y']": "input",
    }
    (folder / "variables.txt").write_text("params['w2']\nparams['w']\n")
    with pytest.raises(
        InputError, match=r"variables.txt: line 2: params\['w'\]: must be an argument of the step \(did"
    ):
        with_variables(graph, folder / "variables.txt")


def test_the_command_reads_the_list(dse, folder):
    (folder / "variables.txt").write_text("params['w2']\n")
    answer = dse(
        "parallel", "step.hlo", "--mesh", "4", "--objective", "count", "--variables", "variables.txt", "--json"
    )
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["objective"]["value"] == 1


def test_a_graph_and_what_jax_lowered_are_taken_as_objects(folder):
    import dse

    graph = step_of(resolve_step("step.hlo"))
    named = dse.parallel("step.hlo", mesh="4", workers=0)
    given = dse.parallel(graph, mesh="4", workers=0)
    assert given.solution == named.solution
    assert given.check() == []
    jax = pytest.importorskip("jax")
    namespace = {}
    exec(FUNCTIONS, namespace)
    step, *shapes = namespace["step"]()
    lowered = dse.parallel(jax.jit(step).lower(*shapes), mesh="4", workers=0)
    assert lowered.check() == []
    assert lowered.solution["arguments"].keys() == named.solution["arguments"].keys()


def test_a_function_is_checked_from_the_result_or_run_again_from_its_file(dse, folder):
    pytest.importorskip("jax")
    asked = ("--mesh", "4", "--method", "linkage", "--quiet", "--out", folder / "run")
    assert dse("parallel", "functions.py:step", *asked).code == 0
    assert (folder / "run" / "plan_jax.py").exists()
    checked = dse("check", folder / "run" / "result.json")
    assert checked.code == 0, checked.out + checked.err
    (folder / "functions.py").write_text(
        FUNCTIONS.replace("shape(16, 32)", "shape(16, 64)").replace("(32, 8)", "(64, 8)")
    )
    assert dse("check", folder / "run" / "result.json").code == 0
    assert dse("check", folder / "run" / "result.json", "--run-code").code == 1
