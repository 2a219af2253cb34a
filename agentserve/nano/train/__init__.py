"""Training of the nano model; needs torch and the shards that ``nano collect`` writes."""
