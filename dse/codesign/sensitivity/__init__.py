"""What would change the answer: the search asked again with one thing changed."""
