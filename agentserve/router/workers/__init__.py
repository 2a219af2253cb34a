"""The workers: found, watched, asked."""
