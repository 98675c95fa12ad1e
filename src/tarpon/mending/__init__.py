"""What can be done with posteriors that are wrong: regions that hold, and how wrong they are."""
