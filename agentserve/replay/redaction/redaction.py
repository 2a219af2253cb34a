"""What is taken out of a recording while it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentserve.core.elements import PageBox
from agentserve.replay.bundle.format import Meta
from agentserve.replay.redaction.secrets import Secrets


@dataclass(frozen=True)
class Redaction:
    """Regions of every screenshot, and values wherever they occur as text.

    A mask hides pixels only, a secret text only: a page that shows a secret needs both.
    """

    masks: tuple[PageBox, ...] = ()
    """In CSS px of the viewport."""
    secrets: Secrets = field(default_factory=lambda: Secrets({}))

    def of(self, meta: Meta) -> Meta:
        """The recording's meta.json, which tells what was taken out, here or before it came."""
        hidden = self.secrets.hidden_in(meta)
        names = dict.fromkeys([*hidden.secrets, *self.secrets.names])
        return hidden.model_copy(update={"masks": list(self.masks), "secrets": list(names)})
