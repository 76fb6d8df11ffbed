"""Co-search where the plan of each accelerator comes from the vocabulary of :mod:`dse.plan`."""
