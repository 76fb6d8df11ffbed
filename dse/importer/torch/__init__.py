"""PyTorch modules, traced."""
