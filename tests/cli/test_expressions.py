"""What the API server refuses of new expressions is found, where the allocator would say nothing."""

from dataclasses import replace

import pytest

import slips_of_derived
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.cli.load import find_refused_expressions, gather
from dra_operator.pods.objects import Manifest, Place
from too_long import claim, request

CASES = slips_of_derived.EXPRESSIONS
COSTLY = CASES["a derived attribute that can cost too much"][0]


def read(body, **metadata):
    """Return an object of a body."""
    return apply_defaults(read_object({"metadata": {"name": "x"} | metadata, **body}))


@pytest.mark.parametrize(("body", "path", "message"), CASES.values(), ids=CASES)
def test_a_refusal_names_the_expression(body, path, message):
    """Each slip is told once, with the path of the field."""
    (found,) = find_refused_expressions(read(body))

    assert found.path == path
    assert found.message.startswith(message)


@pytest.mark.parametrize("body", slips_of_derived.RIGHT.values(), ids=slips_of_derived.RIGHT)
def test_what_is_right_is_not_refused(body):
    """However close it comes."""
    assert not list(find_refused_expressions(read(body)))


def test_a_template_has_the_same():
    """The expressions of a template are those of its claims."""
    body = {"kind": "ResourceClaimTemplate", "spec": {"spec": COSTLY["spec"]}}

    (found,) = find_refused_expressions(read(body))

    assert found.path == "spec.spec.devices.requests[0].exactly.derivedAttributes[0].expression"


def test_what_an_api_server_has_taken_is_not_refused():
    """Nor what has its devices: it was taken as well."""
    stored = read(COSTLY)
    allocated = replace(stored, status=read({"kind": "ResourceClaim", "status": {"allocation": {}}}).status)

    assert not list(find_refused_expressions(read(COSTLY, uid="u")))
    assert not list(find_refused_expressions(allocated))


def test_a_selector_that_does_not_compile_is_left_to_the_allocator():
    """The reason of the claim says it."""
    selector = {"cel": {"expression": "device.name"}}

    assert not list(find_refused_expressions(read(claim(requests=[request(selectors=[selector])]))))


def test_simulate_tells_it_by_the_path_of_the_version():
    """In v1beta1 there is no `exactly`."""
    body = claim(
        requests=[
            {
                "name": "r",
                "deviceClassName": "c",
                "selectors": [{"cel": {"expression": f"{slips_of_derived.COSTLY} == 'a'"}}],
            }
        ]
    )
    manifest = {"apiVersion": "resource.k8s.io/v1beta1", "metadata": {"name": "x"}, **body}

    (line,) = gather([Manifest(Place("file", 1, 1), manifest)]).errors

    assert "spec.devices.requests[0].selectors[0].cel.expression: can cost more than" in line
