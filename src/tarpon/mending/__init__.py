"""What can be done about wrong posteriors: regions that hold, how wrong they are, repair."""
