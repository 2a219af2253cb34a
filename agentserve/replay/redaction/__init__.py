"""What a recording must not hold: regions of screens, values of secrets."""
