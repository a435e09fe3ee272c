"""The programs that prove that no device is held twice beside kube-scheduler, in tens of seconds instead of minutes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import beside_scheduler
import moved_devices
import reinstalled_policy

LOAD = "--seconds=10 --claims=80 --pods=80 --plain=3 --lifetime=4 --patience=5 --settle=1"
AGAIN = "--devices=192 --pods=170 --claims=40 --unwritten=60 --settle=2 --quiet=8 --by=kustomize"
MOVES = "--rounds=1 --devices=160 --pods=150 --unwritten=20 --settle=2"

pytestmark = [pytest.mark.usefixtures("programs"), pytest.mark.timeout(900)]


def test_no_owned_device_is_held_twice(capsys):
    """While both allocate, each event leaves an owned device one holder, and what waits at the end waits rightly.

    So few pods a second are no load to kube-scheduler at its default limits: it writes as fast as without them. At its
    limits it is in the other test.
    """
    code = beside_scheduler.main([*LOAD.split(), "--scheduler=fast"])

    shown = capsys.readouterr().out
    assert code == 0, shown
    assert "owned devices: 0 device, 0 counter, 0 capacity" in shown


def test_devices_change_hands_without_two_holders(capsys):
    """Devices become the operator's by a policy while kube-scheduler has decided about them, and are given back."""
    code = moved_devices.main(MOVES.split())

    shown = capsys.readouterr().out
    assert code == 0, shown


def test_a_policy_that_was_installed_again_is_not_taken_for_the_fence(capsys):
    """While the API server knows no new rules, devices become ours: none has two holders, and readyz says why.

    The operator has taken over from one that knew the policy before. That one which starts afterwards, or runs
    meanwhile, waits for quiet as well: test_ownership.py.
    """
    code = reinstalled_policy.main([*AGAIN.split(), "--when=leader"])

    shown = capsys.readouterr().out
    assert code == 0, shown
