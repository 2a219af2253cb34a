"""Measurements of what the product claims, each with its baseline in the same run."""
