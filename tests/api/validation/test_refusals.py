"""What the API server refuses of a claim is found, with what to do about it."""

import pytest

from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.validation.refusals import find_refusals


def request(name="gpu", **exactly):
    """A request of a claim."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


LIST = {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]}


def config(parameters, driver="nic.example.com"):
    """Configuration of a driver."""
    return {"opaque": {"driver": driver, "parameters": parameters}}


def refused(devices, **more):
    """Return path and message of each refusal of a claim for some devices."""
    body = {"metadata": {"name": "x"}, "spec": {"devices": devices}, **more}
    claim = apply_defaults(read_object(body, "ResourceClaim"))
    return [(item.path, item.message) for item in find_refusals(claim, body)]


@pytest.mark.parametrize(
    ("devices", "path", "message"),
    [
        ({"requests": [request(), request()]}, "requests[1].name", '"gpu" is the name of two requests'),
        ({"requests": [request("GPU_1")]}, "requests[0].name", '"GPU_1" is no name of a request'),
        ({"requests": [request("")]}, "requests[0].name", '"" is no name of a request'),
        (
            {"requests": [{**LIST, "firstAvailable": LIST["firstAvailable"] * 2}]},
            "requests[0].firstAvailable[1].name",
            '"big" is the name of two requests',
        ),
        ({"requests": [request(count=-1)]}, "requests[0].exactly.count", "-1 is not greater than zero"),
        (
            {"requests": [request(count=2, allocationMode="All")]},
            "requests[0].exactly.count",
            "2 cannot be given with allocationMode All",
        ),
        (
            {"requests": [{**LIST, **request()}]},
            "requests[0]",
            "asks for devices in firstAvailable and beside it",
        ),
        (
            {"requests": [request(), LIST], "constraints": [{"requests": ["gp"], "matchAttribute": "a.b/c"}]},
            "constraints[0].requests[0]",
            '"gp" names no request: the claim has gpu, any, any/big',
        ),
        (
            {"requests": [request()], "config": [{"requests": ["gpu/big"], **config({"mtu": 1})}]},
            "config[0].requests[0]",
            '"gpu/big" names no request',
        ),
        (
            {"requests": [request()], "constraints": [{"matchAttribute": "m"}]},
            "constraints[0].matchAttribute",
            '"m" is not fully qualified: write domain/name',
        ),
        (
            {"requests": [request()], "constraints": [{"distinctAttribute": "a.b/"}]},
            "constraints[0].distinctAttribute",
            '"a.b/" is not fully qualified',
        ),
    ],
)
def test_a_refusal_names_field_value_and_remedy(devices, path, message):
    """Each is told with the path of the field, its value and what is wrong."""
    ((found, text),) = refused(devices)

    assert found == f"spec.devices.{path}"
    assert text.startswith(message)


@pytest.mark.parametrize(
    ("toleration", "field", "message"),
    [
        ({"key": "a", "effect": "Noschedule"}, "effect", '"Noschedule" is no effect: write NoSchedule or'),
        ({"key": "a", "operator": "In"}, "operator", '"In" is no operator: write Equal or Exists'),
        (
            {"key": "a", "operator": "Exists", "value": "1"},
            "value",
            '"1" cannot be given with operator Exists',
        ),
        ({"key": "a b"}, "key", '"a b" is no key of a taint'),
        ({"key": "A.b/c"}, "key", '"A.b/c" is no key of a taint'),
        ({"key": "a/b/c"}, "key", '"a/b/c" is no key of a taint'),
        ({"key": "a", "value": "x y"}, "value", '"x y" is no value of a taint'),
    ],
)
def test_a_toleration_that_is_written_wrongly_is_refused(toleration, field, message):
    """In a list of alternatives as elsewhere; else it would tolerate nothing, or all, without a word."""
    subrequest = {"name": "big", "deviceClassName": "gpu", "tolerations": [toleration]}
    in_list = {"name": "any", "firstAvailable": [subrequest]}
    (one, two) = refused({"requests": [request(tolerations=[toleration]), in_list]})

    assert one[0] == f"spec.devices.requests[0].exactly.tolerations[0].{field}"
    assert two[0] == f"spec.devices.requests[1].firstAvailable[0].tolerations[0].{field}"
    assert one[1] == two[1]
    assert one[1].startswith(message)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({}, "", "opaque is missing"),
        (config({"a": 1}, "nic_1"), ".opaque.driver", '"nic_1" is no name of a driver: write a domain'),
        (config({"a": 1}, ""), ".opaque.driver", '"" is no name of a driver'),
        (config(None), ".opaque.parameters", "must be an object"),
        (config("mtu=9000"), ".opaque.parameters", "must be an object"),
        (config([1]), ".opaque.parameters", "must be an object"),
    ],
)
def test_configuration_that_no_driver_could_read_is_refused(given, field, message):
    """The parameters themselves are the driver's affair, and may be secret: they are not shown."""
    ((found, text),) = refused({"requests": [request()], "config": [given]})

    assert found == f"spec.devices.config[0]{field}"
    assert text.startswith(message)
    assert "9000" not in text


def test_a_right_claim_is_not_refused():
    """Subrequests, whole requests, domains with dots and the defaults are fine."""
    devices = {
        "requests": [request(), request("all", allocationMode="All"), LIST],
        "constraints": [
            {"requests": ["gpu", "any"], "matchAttribute": "gpu.example.com/pcie_Root"},
            {"requests": ["any/big"], "distinctAttribute": "localhost/x"},
        ],
        "config": [{"requests": ["any"], **config({})}, config({"mtu": 9000})],
    }
    tolerations = [
        {"operator": "Exists"},
        {"key": "example.com/Worn_out", "value": "91", "effect": "NoExecute"},
        {"key": "worn", "operator": "Equal", "effect": "None"},
        {"value": "91"},
    ]
    devices["requests"].append(request("worn", tolerations=tolerations))

    assert refused(devices) == []


def test_a_template_is_looked_at():
    """The claim in a template is refused as one of its own would be, at its own path."""
    spec = {"spec": {"devices": {"requests": [request(count=-1)]}}}
    body = {"kind": "ResourceClaimTemplate", "metadata": {"name": "x"}, "spec": spec}
    template = apply_defaults(read_object(body))

    assert [item.path for item in find_refusals(template, body)] == [
        "spec.spec.devices.requests[0].exactly.count"
    ]


def test_an_allocated_claim_is_not_looked_at():
    """Its devices are taken, whatever it looks like; leaving it out would free them."""
    assert refused({"requests": [request(count=-1)]}, status={"allocation": {}}) == []


def test_what_a_server_has_taken_may_have_what_it_knows():
    """A newer one may have more operators, 1.36 takes domains in capitals, a snapshot may leave out parameters."""
    devices = {
        "requests": [request(tolerations=[{"key": "wear", "operator": "Gt", "value": "50"}])],
        "constraints": [{"matchAttribute": "GPU.example.com/model"}],
        "config": [config(None)],
    }

    assert refused(devices, metadata={"name": "x", "uid": "u"}) == []
    assert len(refused(devices)) == 3
