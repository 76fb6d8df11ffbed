"""Model builders: from a few hyper-parameters to operator graphs at any microbatch and tensor-parallel width."""
