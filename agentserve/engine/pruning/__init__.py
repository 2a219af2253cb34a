"""Which visual tokens stay, decided in the engine.

``select`` chooses from the vision encoder's output when a request comes; ``forward`` while the
language model computes its prompt; ``decide`` once its answer is complete. Each ends in a keep set:
from there on the rest of the engine sees an ordinary, shorter sequence.
"""
