"""The kinds of our own that there are, each with its controller."""

from datetime import timedelta

from dra_operator.kinds import allocation_policy, device_maintenance, device_reservation
from dra_operator.kinds.handlers import OwnKind
from dra_operator.kinds.maintenance_controller import MaintenanceController
from dra_operator.kinds.policy_controller import PolicyController
from dra_operator.kinds.reservation_controller import ReservationController
from dra_operator.kinds.world import World


def build_own_kinds(world: World, quiet_seconds: float, fenced_seconds: float) -> tuple[OwnKind, ...]:
    """Return them all; the seconds are how long a card in maintenance must have been free, and so behind its policy."""
    policies, reservations = PolicyController(world), ReservationController(world)
    quiet, fenced = timedelta(seconds=quiet_seconds), timedelta(seconds=fenced_seconds)
    return (
        OwnKind(
            allocation_policy.PLURAL,
            policies.reconcile,
            "rules of the policy are still there",
            policies.sweep,
        ),
        OwnKind(
            device_reservation.PLURAL,
            reservations.reconcile,
            "claims of the reservation are still there",
            reservations.sweep,
        ),
        OwnKind(
            device_maintenance.PLURAL,
            MaintenanceController(world, quiet, fenced).reconcile,
            "rules of the maintenance are still there",
        ),
    )
