"""Algorithms that several problems share."""
