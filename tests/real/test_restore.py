"""Etcd restored from a backup: what the operator knows is not stored any more, and no watch may ever tell."""

import signal
import time
from collections import Counter

from controlplane import Scene, install_access, running_control_plane, start_operator
from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import devices

CLAIMS = 4


def test_no_device_is_given_twice_after_a_restore(programs, tmp_path):
    """Claims that were deleted after the backup have their devices again; the operator ends, and begins anew with that.

    The versions have caught up before it asks again, so that its watches go on as if nothing had happened.
    """
    with running_control_plane(programs, tmp_path) as plane:
        install_access(plane)
        create_fleet(plane.client, nodes=CLAIMS, devices=2)
        scene = Scene(plane, "default")
        operator = start_operator(plane, tmp_path / "operator.log", "--lease-seconds=3")
        operator.wait_ready()
        for number in range(CLAIMS):
            scene.create_claim(f"old-{number}", DRIVER)
            scene.wait_allocated(f"old-{number}")
        backup = plane.back_up()
        operator.wait_ready()
        for number in range(CLAIMS):
            scene.delete_claim(f"old-{number}")
            scene.wait_gone(f"old-{number}")
        with plane.restored(backup):
            time.sleep(3)
            operator.send(signal.SIGSTOP)
        for number in range(60):
            plane.client.create(
                "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c-{number}"}}
            )
        for number in range(CLAIMS):
            scene.create_claim(f"new-{number}", DRIVER)
        operator.send(signal.SIGCONT)

        assert operator.wait(30) == 1
        assert "lease went back" in [line.get("event") for line in operator.lines()]
        again = start_operator(plane, tmp_path / "again.log", "--lease-seconds=3")
        for number in range(CLAIMS):
            scene.wait_allocated(f"new-{number}")
        again.stop()
        held = Counter(device for claim in scene.all_claims() for device in devices(claim))

    assert set(held.values()) == {1}
    assert held.total() == 2 * CLAIMS
