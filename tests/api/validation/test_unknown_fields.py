"""Fields that an object does not have are found, whatever version it is written in."""

import pytest

from dra_operator.api.validation.unknown_fields import find_unknown_fields, without_unknown_fields

GROUP = "resource.k8s.io"


def found(kind, spec, version="v1", **more):
    """Return path and proposal of each unknown field of an object."""
    group = "scheduling.k8s.io" if kind == "PodGroup" else GROUP
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec, **more}
    return [(item.path, item.meant) for item in find_unknown_fields(body)]


def asking(request, **devices):
    """The spec of a claim."""
    return {"devices": {"requests": [request], **devices}}


EXACTLY = "spec.devices.requests[0].exactly"


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("ResourceClaim", asking({"exactly": {"selector": []}}), (f"{EXACTLY}.selector", "selectors")),
        ("ResourceClaim", asking({"exactly": {"toleration": []}}), (f"{EXACTLY}.toleration", "tolerations")),
        (
            "ResourceClaim",
            asking({"exactly": {"deviceClasName": "gpu"}}),
            (f"{EXACTLY}.deviceClasName", "deviceClassName"),
        ),
        ("ResourceClaim", asking({"name": "r"}, constraint=[]), ("spec.devices.constraint", "constraints")),
        (
            "ResourceClaim",
            asking({"deviceClassName": "gpu"}),
            ("spec.devices.requests[0].deviceClassName", "exactly.deviceClassName"),
        ),
        ("ResourceClaim", {"qqqqqq": 1}, ("spec.qqqqqq", "")),
        (
            "ResourceClaimTemplate",
            {"spec": asking({"firstAvailable": [{"name": "a", "counts": 2}]})},
            ("spec.spec.devices.requests[0].firstAvailable[0].counts", "count"),
        ),
        (
            "DeviceClass",
            {"selectors": [{"cel": {"expresion": "true"}}]},
            ("spec.selectors[0].cel.expresion", "expression"),
        ),
        ("ResourceSlice", {"nodename": "n"}, ("spec.nodename", "nodeName")),
        (
            "ResourceSlice",
            {"devices": [{"name": "d", "attributes": {"a": {"strng": "x"}}}]},
            ('spec.devices[0].attributes["a"].strng', "string"),
        ),
        (
            "ResourceSlice",
            {"devices": [{"name": "d", "capacity": {"memory": {"valu": "1"}}}]},
            ('spec.devices[0].capacity["memory"].valu', "value"),
        ),
        (
            "DeviceTaintRule",
            {"deviceSelector": {"drivers": "d"}},
            ("spec.deviceSelector.drivers", "driver"),
        ),
    ],
)
def test_a_misspelt_field_is_found(kind, spec, expected):
    """A field that its type does not have is named with its path, and with the field that was meant."""
    assert found(kind, spec) == [expected]


@pytest.mark.parametrize(
    ("version", "expected"), [("v1beta1", [("spec.podGroupTemplateRef", "")]), ("v1alpha2", [])]
)
def test_a_podgroup_has_the_fields_of_its_version(version, expected):
    """Of a version that is not known nothing is said."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "podGroupTemplateRef": {"workload": {}}}
    assert found("PodGroup", spec, version) == expected


@pytest.mark.parametrize(
    ("kind", "spec", "kept"),
    [
        ("ResourceClaim", {"note": 1, **asking({"name": "r", "why": {}})}, asking({"name": "r"})),
        ("DeviceClass", {"selectors": [{"cel": {"expresion": "true"}}]}, {"selectors": [{"cel": {}}]}),
        (
            "ResourceSlice",
            {"devices": [{"name": "d", "attributes": {"a": {"float": 0.5}, "b": {"int": 1}}}]},
            {"devices": [{"name": "d", "attributes": {"a": {}, "b": {"int": 1}}}]},
        ),
        ("ResourceClaim", {"devices": {"config": [{"opaque": {"parameters": {"any": {"thing": 1}}}}]}}, None),
        ("ResourceClaim", {"devices": "text"}, None),
        ("ResourceClaim", None, None),
    ],
)
def test_unknown_fields_can_be_left_out(kind, spec, kept):
    """What is known stays as it is, opaque parameters and values of the wrong shape among it."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}

    assert without_unknown_fields(body) == {**body, "spec": spec if kept is None else kept}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (
            "ResourceClaim",
            asking({"name": "r", "deviceClassName": "gpu", "selector": []}),
            ("spec.devices.requests[0].selector", "selectors"),
        ),
        (
            "ResourceClaim",
            asking({"deviceClassName": "gpu", "tolerations": [{"keys": "a"}]}),
            ("spec.devices.requests[0].tolerations[0].keys", "key"),
        ),
        ("ResourceClaim", asking({"exactly": {}}), ("spec.devices.requests[0].exactly", "")),
        (
            "ResourceSlice",
            {"devices": [{"name": "d", "attributes": {}}]},
            ("spec.devices[0].attributes", "basic.attributes"),
        ),
    ],
)
def test_an_older_version_has_its_own_fields(kind, spec, expected):
    """In v1beta1 a request is flat and a device is wrapped; a path is as it is written there."""
    assert found(kind, spec, "v1beta1") == [expected]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "advice"),
    [
        (
            "ResourceClaim",
            "v1beta1",
            asking({"exactly": {}}),
            "write apiVersion: resource.k8s.io/v1, or move its fields up, next to the name",
        ),
        (
            "ResourceSlice",
            "v1",
            {"devices": [{"name": "d", "basic": {}}]},
            "that is v1beta1: in this version its fields are next to the name",
        ),
        (
            "ResourceClaim",
            "v1",
            {"resourceClassName": "gpu"},
            "a request in spec.devices.requests names a class",
        ),
        ("ResourceClaim", "v1", {"spec": asking({"name": "r"})}, "only a ResourceClaimTemplate has it"),
        ("ResourceClaim", "v1beta1", asking({"name": "r"}, count=2), "write spec.devices.requests[].count"),
        (
            "ResourceClaim",
            "v1",
            asking({"name": "r"}, count=2),
            "write spec.devices.requests[].exactly.count",
        ),
        ("ResourceClaim", "v1", {"tolerations": []}, "write spec.devices.requests[].exactly.tolerations"),
        ("ResourceClaim", "v1beta2", {"selectors": []}, "write spec.devices.requests[].exactly.selectors"),
        ("ResourceClaim", "v1beta1", {"tolerations": []}, "write spec.devices.requests[].tolerations"),
        ("ResourceClaim", "v1", {"firstAvailable": []}, "write spec.devices.requests[].firstAvailable"),
        ("ResourceClaim", "v1", {"matchAttribute": "a/b"}, "write spec.devices.constraints[].matchAttribute"),
        ("ResourceClaim", "v1", {"devices": {"opaque": {}}}, "write spec.devices.config[].opaque"),
        (
            "ResourceClaimTemplate",
            "v1",
            {"tolerations": []},
            "write spec.spec.devices.requests[].exactly.tolerations",
        ),
        (
            "ResourceClaimTemplate",
            "v1",
            {"spec": {"tolerations": []}},
            "write spec.spec.devices.requests[].exactly.tolerations",
        ),
        (
            "ResourceClaim",
            "v1",
            {"nodeSelector": {}},
            "a claim is where its devices are: select those by their attributes, or the nodes of the pods that use it",
        ),
        (
            "ResourceClaimTemplate",
            "v1",
            asking({"name": "r"}),
            "write spec.spec.devices: a template has the spec of a claim below its own",
        ),
        (
            "ResourceClaim",
            "v1",
            asking({"name": "r", "exactly": {"capacity": {"memory": "4Gi"}}}),
            "amounts are in requests, by the name of the capacity",
        ),
        (
            "ResourceClaim",
            "v1",
            asking({"name": "r", "firstAvailable": [{"name": "a", "exactly": {}}]}),
            "move its fields up, next to the name",
        ),
        (
            "ResourceClaim",
            "v1",
            asking({"name": "r", "firstAvailable": [{"name": "a", "adminAccess": True}]}),
            "only a request without alternatives has it, in exactly",
        ),
        (
            "DeviceTaintRule",
            "v1beta2",
            {"deviceSelector": {"selectors": []}},
            "since Kubernetes 1.35 only driver, pool and device select",
        ),
    ],
    ids=[
        "exactly",
        "basic",
        "a class of before",
        "the spec of a template",
        "beside requests",
        "beside requests of v1",
        "tolerations of a claim",
        "selectors of a claim",
        "tolerations of a claim of v1beta1",
        "alternatives of a claim",
        "a constraint of a claim",
        "configuration beside requests",
        "tolerations of a template",
        "tolerations of the claim in a template",
        "the nodes of a claim",
        "a template without a second spec",
        "amounts without requests",
        "exactly in an alternative",
        "admin access in an alternative",
        "a rule's selectors",
    ],
)
def test_a_field_of_another_place_or_version_is_told_with_what_to_do(kind, version, spec, advice):
    """No known name is close to it, and a rule that loses its selectors would taint every device."""
    body = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}

    assert [item.message for item in find_unknown_fields(body)] == [f"unknown field; {advice}"]


def test_what_rules_selected_by_is_known_to_v1alpha3():
    """Kubernetes 1.33 and 1.34 select devices by class and CEL there."""
    selector = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "true", "extra": 1}}]}

    assert found("DeviceTaintRule", {"deviceSelector": selector}, "v1alpha3") == [
        ("spec.deviceSelector.selectors[0].cel.extra", "")
    ]


def test_former_fields_are_known_to_their_version_alone():
    """`controller` of v1alpha3 is a field there, and none in v1."""
    assert found("ResourceClaim", {"controller": "c"}, "v1alpha3") == []
    assert found("ResourceClaim", {"controller": "c"}) == [("spec.controller", "")]


def test_what_the_types_leave_out_of_the_api_is_known():
    """A live object passes: managed fields, status of drivers, carried-through values, fields nothing here reads."""
    metadata = {
        "name": "x",
        "generateName": "x-",
        "uid": "1",
        "managedFields": [{"fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "uid": "2", "blockOwnerDeletion": True}],
    }
    results = [{"request": "r", "shareID": "s", "consumedCapacity": {"memory": "1"}}]
    status = {
        "allocation": {"devices": {"results": results}},
        "devices": [{"driver": "d", "networkData": {"ips": []}, "conditions": [{"type": "Ready"}]}],
    }
    config = [{"opaque": {"driver": "d", "parameters": {"anything": {"at": "all"}}}}]
    slices = {
        "partitionTypeAttribute": "a/b",
        "devices": [{"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "c"}}}}],
    }

    assert found("ResourceClaim", {"devices": {"config": config}}, metadata=metadata, status=status) == []
    assert found("ResourceSlice", slices) == []
    assert found("DeviceTaintRule", {"taint": {"timeAdded": None}}, status={"conditions": []}) == []


@pytest.mark.parametrize("spec", [None, [], "text", {"devices": None}, {"devices": {"requests": {"a": 1}}}])
def test_what_is_not_shaped_as_expected_is_left_to_the_reader(spec):
    """A value of the wrong shape holds no field to be told about."""
    assert found("ResourceClaim", spec) == found("ResourceClaim", spec, "v1beta1") == []
