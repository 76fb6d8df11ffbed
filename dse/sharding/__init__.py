"""How tensors are cut over a mesh of devices."""
