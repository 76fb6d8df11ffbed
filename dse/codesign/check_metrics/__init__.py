"""The checker of what a co-search result says beside its answer."""
