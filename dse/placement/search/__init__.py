"""The dynamic programs over chains and downsets."""
