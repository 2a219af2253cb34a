"""Visual items in a prompt: their places, their identities, their tokens."""
