"""The end of an outage of the API server: nobody waits out a pause that has grown meanwhile."""

import time

from controlplane.fleet import DRIVER, create_fleet

OUTAGE_SECONDS = 20
"""Long enough for pauses of ten seconds."""
SECONDS = 3.0
CLAIMS = 40


def test_the_first_claim_after_an_outage_is_decided_at_once(scene, control_plane, operator):
    """So are those that were being written when it began, the operator is ready, and an Event tells of the first one.

    An API server that was just started permits nobody anything for a moment.
    """
    create_fleet(scene.client, nodes=10, devices=8)
    for number in range(CLAIMS):
        scene.create_claim(f"early-{number}", DRIVER)
    with control_plane.outage():
        time.sleep(OUTAGE_SECONDS)
    begun = time.monotonic()
    scene.create_claim("first", DRIVER)
    scene.wait_allocated("first")
    for number in range(CLAIMS):
        scene.wait_allocated(f"early-{number}")
    scene.wait_event("first", "Allocated")
    operator.wait_ready()

    assert time.monotonic() - begun < SECONDS
