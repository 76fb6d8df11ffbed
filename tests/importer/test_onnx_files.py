"""ONNX models whose values lie in files beside them, and batches that are not the leading dimension."""

import os
from collections import Counter

import numpy as np
import onnx
import pytest

from dse.importer.onnx.file import read_onnx, read_onnx_files
from dse.sources.resolve import resolve
from dse.sources.traces import inference_trace_of
from hardware.inputs import InputError

helper, TensorProto = onnx.helper, onnx.TensorProto


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def saved(folder, nodes, inputs, outputs, weights, name="model.onnx"):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    path = folder / name
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


def external(array, name, location, offset=0, length=None):
    made = onnx.numpy_helper.from_array(np.asarray(array), name)
    size = len(made.raw_data)
    made.ClearField("raw_data")
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", size if length is None else length)):
        made.external_data.add(key=key, value=str(value))
    return made


def weight(name, *shape):
    return external(np.zeros(shape, np.float32), name, "missing.bin")


def reshaping(folder, location="values.bin", **stated):
    """x[n, 6] as n × (2, 3), by a shape in a file of its own, then a product."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    shape = external(np.array([-1, 2, 3], np.int64), "shape", location, **stated)
    return saved(folder, nodes, [tensor("x", ["n", 6])], [tensor("y", None)], [weight("w", 3, 5), shape])


def values_file(folder, name="values.bin", before=0):
    (folder / name).write_bytes(b"?" * before + np.array([-1, 2, 3], np.int64).tobytes())


def refused(path, microbatch=4):
    with pytest.raises(InputError) as error:
        read_onnx(path, microbatch)
    (fault,) = error.value.faults
    return str(fault)


def test_shapes_are_read_from_a_file_beside_the_model(tmp_path):
    values_file(tmp_path)
    trace, files = read_onnx_files(reshaping(tmp_path), 4)
    assert trace.values[trace.outputs[0]].shape == (4, 2, 5)
    assert [file.name for file in files] == ["values.bin"]


def test_at_an_offset_and_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "data").mkdir()
    values_file(tmp_path / "data", before=32)
    trace = read_onnx(reshaping(tmp_path, "data/values.bin", offset=32), 4)
    assert trace.values[trace.outputs[0]].shape == (4, 2, 5)


def test_onnxs_own_way_of_saving_is_read(tmp_path):
    model = onnx.load(reshaping(tmp_path), load_external_data=False)
    del model.graph.initializer[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((3, 5), np.float32), "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1, 2, 3]), "shape"))
    path = tmp_path / "other.onnx"
    onnx.save(model, path, save_as_external_data=True, location="all.bin", size_threshold=0)
    assert read_onnx(path, 4).values[-1].shape == (4, 2, 5)


def test_a_change_of_the_file_is_seen(tmp_path):
    values_file(tmp_path)
    path = reshaping(tmp_path)
    shapes = []
    for values in ([-1, 2, 3], [-1, 1, 3]):
        (tmp_path / "values.bin").write_bytes(np.array(values, np.int64).tobytes())
        trace = inference_trace_of(resolve(str(path)), 4)
        shapes.append(trace.values[trace.outputs[0]].shape)
    assert shapes == [(4, 2, 5), (8, 1, 5)]


def test_a_missing_file_is_named_with_its_tensor(tmp_path):
    message = refused(reshaping(tmp_path))
    assert "values.shape: must be known here, but the values of shape are in" in message
    assert message.endswith("values.bin, which does not exist")


def test_so_it_is_where_values_are_computed_of_it(tmp_path):
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["shape"]),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    half = external(np.array([2, 3], np.int64), "half", "gone.bin")
    two = onnx.numpy_helper.from_array(np.array([2, 1], np.int64), "two")
    path = saved(tmp_path, nodes, [tensor("x", ["n", 3])], [tensor("y", None)], [half, two])
    assert "values.half: must be known here, but the values of half are in" in refused(path)


@pytest.mark.parametrize("location", ["../values.bin", "/etc/hostname", "data/../../values.bin", ""])
def test_no_file_outside_the_folder_is_read(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    values_file(tmp_path)
    message = refused(reshaping(folder, location))
    assert "values.shape.location" in message
    assert message.endswith("must be a file in the model's folder")


def test_nor_through_a_link(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    values_file(tmp_path)
    os.symlink(tmp_path / "values.bin", folder / "values.bin")
    assert refused(reshaping(folder)).endswith("must be a file in the model's folder")


@pytest.mark.parametrize("stated", [{"offset": 8}, {"length": 25}, {"offset": -8}, {"offset": "x"}, {"length": 10**20}])
def test_values_beyond_the_file_are_refused(tmp_path, stated):
    values_file(tmp_path)
    assert "must lie within values.bin, which has 24 bytes" in refused(reshaping(tmp_path, **stated))


def test_weights_need_no_file(tmp_path):
    path = saved(
        tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", ["n", 6])], [tensor("y", None)],
        [external(np.zeros((6, 5), np.float32), "w", "../elsewhere.bin")],
    )  # fmt: skip
    assert read_onnx(path, 2).parameters == 30


# The batch ------------------------------------------------------------------------------------------------------------


def shapes(trace):
    inputs = [value.shape for value in trace.values if value.role == "input"]
    return inputs, [trace.values[index].shape for index in trace.outputs]


def test_a_batch_behind_features_is_found(tmp_path):
    node = helper.make_node("Gemm", ["a", "w"], ["y"], transA=1)
    path = saved(tmp_path, [node], [tensor("a", [1024, 64])], [tensor("y", [64, 10])], [weight("w", 1024, 10)])
    trace = read_onnx(path, 8)
    assert shapes(trace) == ([(1024, 8)], [(8, 10)])
    assert Counter(step.kind for step in trace.steps)["matmul"] == 1


def test_a_dimension_that_two_inputs_contract_is_no_batch(tmp_path):
    node = helper.make_node("Gemm", ["a", "b"], ["y"], transA=1)
    path = saved(tmp_path, [node], [tensor("a", [32, 64]), tensor("b", [32, 7])], [tensor("y", [64, 7])], [])
    assert shapes(read_onnx(path, 8)) == ([(32, 8), (32, 7)], [(8, 7)])


def test_a_sequence_comes_first(tmp_path):
    """x[tokens, batch, features], as recurrent networks have it: the tokens are written into the shape."""
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["t", "w"], ["y"]),
    ]
    flat = onnx.numpy_helper.from_array(np.array([10, -1, 6], np.int64), "flat")
    inputs = [tensor("x", [10, 4, 6])]
    path = saved(tmp_path, nodes, inputs, [tensor("y", [4, 10, 5])], [weight("w", 6, 5), flat])
    assert shapes(read_onnx(path, 2)) == ([(10, 2, 6)], [(2, 10, 5)])
    path = saved(tmp_path, nodes, [tensor("x", [10, "n", 6])], [tensor("y", None)], [weight("w", 6, 5), flat])
    assert shapes(read_onnx(path, 2)) == ([(10, 2, 6)], [(2, 10, 5)])


def test_inputs_may_have_it_at_different_places(tmp_path):
    nodes = [helper.make_node("Transpose", ["mask"], ["m"], perm=[1, 0]), helper.make_node("Add", ["x", "m"], ["y"])]
    inputs = [tensor("x", [4, 10]), tensor("mask", [10, 4])]
    path = saved(tmp_path, nodes, inputs, [tensor("y", [4, 10])], [])
    assert shapes(read_onnx(path, 2)) == ([(2, 10), (10, 2)], [(2, 10)])


def test_where_nothing_can_be_changed_the_first_reason_is_given(tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "all"], ["y"])]
    everything = onnx.numpy_helper.from_array(np.array([4, 6], np.int64), "all")
    path = saved(tmp_path, nodes, [tensor("x", [4, 6])], [tensor("y", [4, 6])], [everything])
    assert "if the batch was fixed at export" in refused(path, 2)
    assert shapes(read_onnx(path, 4)) == ([(4, 6)], [(4, 6)])
