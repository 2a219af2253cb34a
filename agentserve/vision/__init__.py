"""Pixels to plan: opening screenshots, choosing what a prompt keeps. Pure: NumPy and Pillow."""
