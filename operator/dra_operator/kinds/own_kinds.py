"""The kinds of our own that there are, each with its controller."""

from typing import Final

from dra_operator.kinds import allocation_policy, device_reservation
from dra_operator.kinds.handlers import OwnKind
from dra_operator.kinds.policy_controller import PolicyController
from dra_operator.kinds.reservation_controller import ReservationController
from dra_operator.kinds.world import World

PLURALS: Final = (allocation_policy.PLURAL, device_reservation.PLURAL)


def build_own_kinds(world: World) -> tuple[OwnKind, ...]:
    """Return them all."""
    return (
        OwnKind(
            allocation_policy.PLURAL,
            PolicyController(world).reconcile,
            "rules of the policy are still there",
        ),
        OwnKind(
            device_reservation.PLURAL,
            ReservationController(world).reconcile,
            "claims of the reservation are still there",
        ),
    )
