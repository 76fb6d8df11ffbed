"""Constants of accelerators, networks and software stacks fitted to what was measured."""
