"""Inference on ranks: exact bands and p-values."""
