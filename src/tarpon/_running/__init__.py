"""What a run is made of: the problem, the workers, their store, the book and the watch."""
