"""Backpressure: how much runs and waits at once, and in which order between tenants."""

from agentserve.router.admission.fair_queue import LimitsOf, TenantLimits
from agentserve.router.admission.places import Admission, Admissions, Place

__all__ = ["Admission", "Admissions", "LimitsOf", "Place", "TenantLimits"]
