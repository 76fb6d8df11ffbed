"""``dse reproduce gigaplacer``: the wafer placement paper's tables and figures beside ours."""
