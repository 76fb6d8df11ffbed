"""Operator graphs of models: operators inside layers, layers inside a model."""
