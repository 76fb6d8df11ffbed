"""How accurate models are on graphs held out from their training."""
