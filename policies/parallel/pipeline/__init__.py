"""Pipelines, cut by a Q-network: by training on one problem, or by a policy that was pretrained on generated ones."""
