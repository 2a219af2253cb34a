"""The shared nouns: screens, actions, sessions, plans, events, families, errors. No torch."""
