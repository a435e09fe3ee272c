"""What is used: exclusive devices, shares and counters, and our own decisions that are not yet written."""

from dra_operator.ledger.availability import Availability, Log
from dra_operator.ledger.uses import ClaimKey, Ledger

__all__ = ["Availability", "ClaimKey", "Ledger", "Log"]
