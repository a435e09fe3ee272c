"""Share ids: random UUIDs in lower case, which tell the shares of a device apart.

One is made for each share that is given away, and by the standard library that takes as long as finding the device.
Source: ResourceClaim v1, `status.allocation.devices.results[].shareID`.
"""

from collections.abc import Callable
from typing import Final

_VERSION: Final = 0x4000 << 64 | 0x8000 << 48
_RANDOM: Final = ~(0xF000 << 64 | 0xC000 << 48)


def share_id(random_bits: Callable[[int], int]) -> str:
    """Return a UUID of version 4 of random bits, of which a source gives so many as an int."""
    digits = f"{random_bits(128) & _RANDOM | _VERSION:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
