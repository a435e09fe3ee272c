"""The decider: on whose behalf a claim is decided, which says what its requests tolerate without saying so.

Source: docs/operator.md, section "Devices that are ours".
"""

from enum import Enum
from typing import Final

from dra_operator.api.types import DeviceToleration
from dra_operator.inventory.ownership import FENCED_TOLERATION, OWNED_TOLERATION, UNOWNED_TOLERATION

_KUBE_SCHEDULER, _KUBE_SCHEDULER_ADMIN, _OPERATOR, _OPERATOR_ADMIN = range(4)
IMPLIED: Final[tuple[tuple[DeviceToleration, ...], ...]] = (
    (UNOWNED_TOLERATION,),
    (UNOWNED_TOLERATION, FENCED_TOLERATION),
    (OWNED_TOLERATION, FENCED_TOLERATION),
    (OWNED_TOLERATION, FENCED_TOLERATION, UNOWNED_TOLERATION),
)
"""What requests tolerate besides what they say, by number. A number is hashed fast, and a toleration by Python code."""


class Decider(Enum):
    """Who decides: the operator about devices that it owns, kube-scheduler about all that it may take."""

    OPERATOR = "operator"
    KUBE_SCHEDULER = "kube-scheduler"

    def implied(self, *, admin_access: bool) -> int:
        """Return the number of what each request tolerates besides what it says. That is not part of results."""
        if self is Decider.KUBE_SCHEDULER:
            return _KUBE_SCHEDULER_ADMIN if admin_access else _KUBE_SCHEDULER
        return _OPERATOR_ADMIN if admin_access else _OPERATOR
