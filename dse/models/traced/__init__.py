"""Layers as the published PHAZE tool traces them: every node of a torch.fx trace, whether it works or not.

The tool (Wang et al., ICML 2024) traces Hugging Face's BERT, OPT and GPT-2 and Megatron-LM's BERT and GPT, keeps every
node of a layer, fuses some, and takes sizes and times from the shapes of their outputs. What it counts is what Table 4
of the paper prints. Where it misreads a model, so do these layers; they are for comparison with the paper only.
"""
