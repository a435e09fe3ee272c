"""The kinds and where they are served."""

from dra_operator.api.kinds import KINDS
from dra_operator.api.read import TYPES


def test_every_kind_but_a_few_can_be_read():
    """There is a dataclass for each kind; Events are only written, and the Lease and volumes are read as they come."""
    assert set(KINDS) - {"Event", "Lease", "PersistentVolume", "PersistentVolumeClaim"} == set(TYPES)


def test_api_versions_name_the_group_unless_it_is_core():
    """`apiVersion` is group and version; the core group has no name."""
    assert KINDS["ResourceClaim"].api_version("v1") == "resource.k8s.io/v1"
    assert KINDS["Node"].api_version("v1") == "v1"


def test_the_newest_version_comes_first():
    """The first version that is served is the one to use."""
    assert KINDS["ResourceClaim"].versions == ("v1", "v1beta2", "v1beta1")
    assert KINDS["DeviceTaintRule"].versions == ("v1", "v1beta2", "v1alpha3")
