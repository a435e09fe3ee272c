"""Reading what is published and held, as `snapshot` reads it; what may not be read is named."""

from typing import TYPE_CHECKING

from dra_operator.cli.snapshot import Snapshot, read_objects
from dra_operator.questions.raw_devices import ClusterDevices, gather_devices

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession

KINDS_READ = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")


async def read_cluster(session: "ApiSession") -> ClusterDevices:
    """Return the devices of a cluster. Raises ApiError, ApiUnreachable, LookupError."""
    return devices_of(await read_objects(session, KINDS_READ))


def devices_of(taken: Snapshot) -> ClusterDevices:
    """Return the devices of what was read."""
    found = gather_devices(taken.bodies)
    found.notes[:0] = taken.notes
    return found
