"""Recording what a person does in a browser."""

from agentserve.browser.person.hidden import Hidden
from agentserve.browser.person.session import PersonSession, PersonStep, View

__all__ = ["Hidden", "PersonSession", "PersonStep", "View"]
