"""Constants of accelerators fitted to measured kernels."""
