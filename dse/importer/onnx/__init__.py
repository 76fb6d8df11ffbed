"""ONNX files, traced."""
