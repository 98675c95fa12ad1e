"""What a run is made of: the problem, the workers, and the store of what they finish."""
