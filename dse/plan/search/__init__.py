"""Searches for plans."""
