"""An outage of the API server: nobody waits out a pause that has grown meanwhile, and the log tells of it once."""

import time

from controlplane.fleet import DRIVER, create_fleet

OUTAGE_SECONDS = 16
"""With the start of the server long enough for pauses of more than SECONDS: a watch waits as long as it has waited."""
SECONDS = 6.0
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


def test_an_outage_is_one_line_in_the_log_and_its_end_another(control_plane, operator):
    """Seven watches meet a cut connection, then nobody, then a server that permits nothing and knows no old version."""

    def is_over():
        """Whether an outage before this one has been told to its end."""
        told = [line["event"] for line in operator.lines() if "kinds" in line]
        return not told or told[-1] == "watching again"

    operator.wait_until(is_over, seconds=30)
    earlier, begun = len(operator.lines()), time.monotonic()
    with control_plane.outage():
        time.sleep(5)
    operator.wait_ready()

    def lines():
        found = [line for line in operator.lines()[earlier:] if "kinds" in line]
        return found if found and found[-1]["event"] == "watching again" else []

    operator.wait_until(lines, seconds=30)
    *begins, end = lines()
    kinds = end["kinds"].split(", ")
    # Two, should the look fall into the moment in which the connections are cut.
    assert {line["event"] for line in begins} == {"watch interrupted"}
    assert sorted(kind for line in begins for kind in line["kinds"].split(", ")) == sorted(kinds)
    assert len(kinds) == 7
    assert 4 <= end["seconds"] <= time.monotonic() - begun + 1
