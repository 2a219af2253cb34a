"""Recording what a person does in a browser."""

from agentserve.browser.person.session import PersonSession, PersonStep, View

__all__ = ["PersonSession", "PersonStep", "View"]
