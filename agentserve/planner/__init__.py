"""Reckoning what settings cost before anything runs. Pure: no torch, no model."""
