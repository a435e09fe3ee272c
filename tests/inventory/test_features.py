"""Feature gates by upstream's names."""

import pytest

from dra_operator.inventory import Features


def test_absent_features_are_on() -> None:
    """Only what is named is switched."""
    features = Features.named({"PartitionableDevices": False})

    assert not features.partitionable_devices
    assert features.prioritized_list


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
