"""Sharing switched on and off while claims hold a device: nothing is given away twice, and what is held twice is told.

Source: a report about a network driver that took `allowMultipleAllocations` off a device with live shares.
"""

import pytest

import factories
from simulation import states, table

DRIVER = "nic.example.com"
CLASS = factories.device_class("nic", f'device.driver == "{DRIVER}"')
PART = {"capacity": {"requests": {"bandwidth": "2G"}}}
SHARE = {"shareID": "11111111-2222-4333-8444-555555555555"}
CONSUMING = {**SHARE, "consumedCapacity": {"bandwidth": "2G"}}


def nic(**device_fields):
    """The slice of a node with one device, in the generation after the change."""
    device = {"name": "nic-0", "capacity": {"bandwidth": {"value": "10G"}}, **device_fields}
    return factories.resource_slice("slice-1", [device], driver=DRIVER, generation=2)


def claim(name, exactly=None, share=None, namespace="team"):
    """A claim for a device or a part of it; `share` says how it has nic-0 already."""
    status = None
    if share is not None:
        status = {
            "allocation": factories.allocation(factories.result("nic-0", "node-1", "nic", DRIVER, **share))
        }
    request = factories.request("nic", "nic", **(exactly or {}))
    return factories.claim(name, request, status=status, namespace=namespace)


@pytest.mark.parametrize("asked", [{}, PART], ids=["asks for all of it", "asks for a part"])
@pytest.mark.parametrize("share", [SHARE, CONSUMING], ids=["share of nothing", "share of a part"])
def test_a_device_that_is_no_longer_shareable_stays_with_its_share(simulate, share, asked):
    """Whoever comes waits for the claim that has the share, and is told which one."""
    result = simulate(CLASS, nic(), claim("old-share", PART, share), claim("newcomer", asked))

    assert states(result) == {"team/newcomer": "pending", "team/old-share": "held"}
    assert table(result)[0][3] == (
        "DeviceInUse: request nic: 1 device published, 1 in class nic, 1 in use by 1 claim (old-share)"
    )
    assert result.exit_code == 1


@pytest.mark.parametrize("asked", [{}, PART], ids=["asks for all of it", "asks for a part"])
def test_a_device_that_has_become_shareable_stays_with_its_holder(simulate, asked):
    """No share is given away beside a claim that has the device for itself alone."""
    result = simulate(
        CLASS, nic(allowMultipleAllocations=True), claim("old", {}, share={}), claim("newcomer", asked)
    )

    assert states(result)["team/newcomer"] == "pending"
    assert "DeviceInUse: " in table(result)[0][3]
    assert "in use by 1 claim (old)" in table(result)[0][3]


@pytest.mark.parametrize("shareable", [True, False], ids=["shareable", "not shareable"])
def test_a_device_held_alone_beside_a_share_is_noted(simulate, shareable):
    """That is a device held twice, whatever its slice says now, and the note says how to get out."""
    result = simulate(
        CLASS,
        nic(allowMultipleAllocations=shareable),
        claim("old-share", PART, CONSUMING),
        claim("alone", {}, share={}),
    )

    assert (
        f"device {DRIVER}/node-1/nic-0 is allocated to team/alone and team/old-share; two allocators serve this "
        "driver; nothing is taken back: let no new pod start there"
    ) in result.stderr
