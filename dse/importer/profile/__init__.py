"""Front ends for profiles: what PyTorch, Nsight Systems, Chakra and XLA record of a run, as columns of events."""
