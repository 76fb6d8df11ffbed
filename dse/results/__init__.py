"""The result format, what its entries must say of each other, comparison, and the check of whole results."""
