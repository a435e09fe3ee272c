"""Feature gates by upstream's names."""

import pytest

from dra_operator.inventory import Features


def test_each_of_the_eleven_has_its_upstream_name() -> None:
    """All of upstream's names are understood."""
    names = [
        "AdminAccess",
        "CompatibilityGroups",
        "ConsumableCapacity",
        "DerivedAttributes",
        "DeviceBindingAndStatus",
        "DeviceTaints",
        "FractionalCapacityRange",
        "ListTypeAttributes",
        "OptionalNodeOperations",
        "PartitionableDevices",
        "PrioritizedList",
    ]

    assert Features.named(dict.fromkeys(names, True)) == Features.all_on()


def test_an_unknown_feature_is_refused_by_name() -> None:
    """A misspelt feature is not ignored."""
    with pytest.raises(ValueError, match="'Partitions'"):
        Features.named({"Partitions": True})
