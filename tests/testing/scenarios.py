"""Every sequence of requests by which the in-memory API server is compared with kube-apiserver."""

from .scenarios_claims import CLAIM_SCENARIOS
from .scenarios_kinds import KIND_SCENARIOS
from .steps import Step

SCENARIOS: dict[str, tuple[Step, ...]] = {**CLAIM_SCENARIOS, **KIND_SCENARIOS}
"""Every scenario by its name."""
