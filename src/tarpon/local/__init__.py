"""Local answers: whether posteriors are accurate near one observation, and where they are not."""
