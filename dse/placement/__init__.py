"""Device placement (paper section 5): pipeline stages × data-parallel pipelines × tensor-parallel width."""
