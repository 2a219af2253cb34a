"""Which worker holds a session: placed, moved, drained, and judged by what its cache gives back."""
