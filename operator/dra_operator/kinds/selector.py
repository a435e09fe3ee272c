"""Selectors of owned devices: which devices a rule owns, and how that rule is named and made.

Source: docs/ownership.md; k8s.io/api/resource/v1, `DeviceTaintSelector`.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dra_operator.api.names import OWNED_KEY
from dra_operator.api.types import DeviceTaintSelector
from dra_operator.kinds.changes import Body, taint_rule

_LONGEST_NAME: Final = 120
_PREFIX: Final = "dra-operator-owned"
_NO_NAME: Final = re.compile(r"[^a-z0-9.-]+|(?<![a-z0-9])[.-]+|[.-]+(?![a-z0-9])")
_HASH_LETTERS: Final = 8


class DeviceKey(NamedTuple):
    """What an allocation names a device by."""

    driver: str
    pool: str
    name: str

    @property
    def selector(self) -> dict[str, str]:
        """The `deviceSelector` that chooses it alone, as on the wire."""
        return {"driver": self.driver, "pool": self.pool, "device": self.name}


@dataclass(frozen=True, slots=True)
class Selector:
    """Devices of a driver: all, or those of a pool, or those of one name, or one."""

    driver: str
    pool: str | None = None
    device: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.fields.items())

    @property
    def fields(self) -> dict[str, str]:
        """What it names, as on the wire."""
        named = {"driver": self.driver, "pool": self.pool, "device": self.device}
        return {name: value for name, value in named.items() if value is not None}

    def matches(self, key: DeviceKey) -> bool:
        """True if a device is among those."""
        return key.driver == self.driver and self.pool in (None, key.pool) and self.device in (None, key.name)

    def overlaps(self, other: "Selector") -> bool:
        """True if there can be a device that both select."""
        return (
            self.driver == other.driver
            and (None in (self.pool, other.pool) or self.pool == other.pool)
            and (None in (self.device, other.device) or self.device == other.device)
        )

    @property
    def rule_name(self) -> str:
        """The name of the rule that owns these devices."""
        parts = [part for part in (self.driver, self.pool, self.device) if part is not None]
        text = "\0".join(part or "" for part in (self.driver, self.pool, self.device))
        digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]
        name = _NO_NAME.sub("-", "-".join([_PREFIX, *parts]).lower())
        return f"{name[:_LONGEST_NAME].rstrip('.-')}-{digest}"

    def rule(self, api_version: str, owners: Sequence[Body] = ()) -> Body:
        """Return the rule that owns these devices, as on the wire."""
        return taint_rule(self.rule_name, self.fields, OWNED_KEY, api_version, owners)


def from_rule_selector(selector: DeviceTaintSelector) -> Selector:
    """Return what the selector of a rule that owns devices selects."""
    return Selector(selector.driver or "", selector.pool, selector.device)
