"""Levels that hold, posteriors that are repaired, and how wrong they are."""
