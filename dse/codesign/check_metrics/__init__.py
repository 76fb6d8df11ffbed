"""The checker of what a co-search result says in addition to its answer."""
