"""Who wrote the status of a claim: what is kept of managed fields says the same as all of them."""

from dra_operator.api.managed_fields import StatusWrite, find_status_writes, trim_managed_fields

FIELDS = [
    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:devices": {}}}},
    {
        "manager": "kube-scheduler", "operation": "Update", "subresource": "status", "time": "1970-01-01T00:01:00Z",
        "fieldsV1": {"f:status": {"f:allocation": {"f:devices": {"f:results": {}}}, "f:reservedFor": {}}},
    },
    {
        "manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
        "fieldsV1": {"f:status": {"f:reservedFor": {}}},
    },
]  # fmt: skip


def claim(fields):
    """A claim with these managed fields."""
    return {"kind": "ResourceClaim", "metadata": {"name": "claim", "managedFields": fields}}


def test_writes_to_the_status_are_found():
    """Each with its time, if it has one, and whether the allocation is among it."""
    assert find_status_writes(claim(FIELDS)) == [
        StatusWrite("kube-scheduler", 60.0, is_of_allocation=True, is_of_reservations=True),
        StatusWrite("kube-controller-manager", None, is_of_allocation=False, is_of_reservations=True),
    ]


def test_what_is_kept_says_the_same_in_fewer_words():
    """Entries about anything else are left out, and so are the fields of an allocation."""
    kept = trim_managed_fields(claim(FIELDS))

    assert find_status_writes(claim(kept)) == find_status_writes(claim(FIELDS))
    assert kept[0]["fieldsV1"] == {"f:status": {"f:allocation": {}, "f:reservedFor": {}}}
