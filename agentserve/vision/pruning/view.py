"""What a method may look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class View:
    """A picture on the token grid, and which of its tokens are to be chosen from."""

    pixels: np.ndarray
    """uint8 [height, width, 3], both sides multiples of the grid."""
    grid: int
    """Edge of a token, in px."""
    covered: np.ndarray
    """bool [rows, columns] on the token grid: the tokens that would be sent, at least one."""
    before: np.ndarray | None = None
    """What the screen showed at the same place before, like ``pixels``. None: nothing."""

    @property
    def tokens(self) -> int:
        """How many are covered."""
        return int(self.covered.sum())

    def tiles(self, pixels: np.ndarray) -> np.ndarray:
        """What of ``pixels`` (or ``before``) lies under each covered token, in raster order: uint8
        [tokens, grid * grid, 3]."""
        rows, columns = self.covered.shape
        blocks = pixels.reshape(rows, self.grid, columns, self.grid, 3).swapaxes(1, 2)
        return blocks[self.covered].reshape(-1, self.grid**2, 3)
