"""The decider: on whose behalf a claim is decided, which says what its requests tolerate without saying so.

Source: docs/operator.md, section "Devices that are ours".
"""

from enum import Enum

from dra_operator.api.types import DeviceToleration
from dra_operator.inventory.ownership import OWNED_TOLERATION, UNOWNED_TOLERATION

_OPERATOR = (OWNED_TOLERATION,)
_OPERATOR_ADMIN = (OWNED_TOLERATION, UNOWNED_TOLERATION)
_KUBE_SCHEDULER = (UNOWNED_TOLERATION,)


class Decider(Enum):
    """Who decides: the operator about devices that it owns, kube-scheduler about all that it may take."""

    OPERATOR = "operator"
    KUBE_SCHEDULER = "kube-scheduler"

    def tolerations(self, *, admin_access: bool) -> tuple[DeviceToleration, ...]:
        """Return what each request tolerates besides what it says. They are not part of results."""
        if self is Decider.KUBE_SCHEDULER:
            return _KUBE_SCHEDULER
        return _OPERATOR_ADMIN if admin_access else _OPERATOR
