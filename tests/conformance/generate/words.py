"""Words: the few names and amounts all parts of a scenario choose from, so that they meet."""

from conformance.generate.chance import Chance
from conformance.generate.style import Style

GPU, NIC, ACCELERATOR = "gpu.example.com", "nic.example.com", "a.example.com"
DRIVERS = (GPU, NIC, ACCELERATOR)
POOLS = ("pool-0", "pool-1", "node-0/x")
SETS = ("set-0", "set-1")
COUNTERS = ("memory", "slices")
GROUPS = ("mig", "vgpu", "whole")
CAPACITIES = ("memory", "cores", f"{GPU}/memory", f"{NIC}/memory", "other.example.com/units")
TAINT_KEYS = ("example.com/broken", "example.com/busy", "maintenance")
TAINT_VALUES = ("", "yes", "no")
EFFECTS = ("NoSchedule", "NoExecute", "None")
ROOT = "resource.kubernetes.io/pcieRoot"

_SMALL = ("0", "1", "2", "3", "4", "5", "8", "10")
_FRACTIONS = ("500m", "1500m", "250m", "100m", "2500m", "1u", "1n", "100u", "1000500u")
_BINARY = ("1Gi", "2Gi", "1536Mi", "4Gi", "8Gi", "512Mi", "10Gi", "1Ki")
_DECIMAL = ("1k", "3k", "1500", "2M", "1e3", "3e3", "12e6")
_HUGE = (
    "9223372036854775807", "9223372036854775806", "9223372036854775808", "8Ei", "7Ei", "10E", "9E", "12E",
    "20E", "1e20", "8Pi", "10Pi", "-9223372036854775808", "-10E",
)  # fmt: skip
_NEGATIVE = ("-1", "-2", "-1Gi", "-500m")


def amount(chance: Chance, style: Style, family: str | None = None) -> str:
    """Return a quantity as text: of one family of units, so that amounts can be compared, or of any."""
    if chance.maybe(style.huge):
        return chance.pick(*_HUGE)
    if chance.maybe(style.broken):
        return chance.pick(*_NEGATIVE)
    families = {
        "binary": _BINARY,
        "small": _SMALL,
        "fractions": _FRACTIONS + _SMALL,
        "decimal": _DECIMAL + _SMALL,
    }
    if family is None or chance.maybe(0.05):
        family = chance.pick(*families)
    return chance.pick(*families[family])


def family_of(capacity: str) -> str:
    """Return the family of units of a capacity or counter of that name."""
    if capacity.endswith("memory"):
        return "binary"
    return "small" if capacity == "slices" else "fractions"
