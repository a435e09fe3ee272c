"""What a plugin answers becomes a CDI file that a runtime takes, or a reason why not."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_bridge.cdi import UnusableAnswerError, cdi_content, cdi_kind, prepare_request, read_answer, unbridged
from dra_bridge.protocols import deviceplugin_pb2 as pb

UID = "7d1e4a1c-2f0b-4a3e-9a51-0d6c2b8f2f10"
DRIVER = "foo.vendor.com"
NAMES = st.text(st.sampled_from("abAB-_./ =\0:,;"), max_size=12)
DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*=[A-Za-z0-9._:-]+")


def answered(**fields):
    """Return a plugin's answer."""
    return read_answer(pb.ContainerAllocateResponse(**fields))


@given(
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.lists(st.tuples(NAMES, NAMES), max_size=3),
    st.lists(NAMES, max_size=3),
    st.dictionaries(NAMES.map("cdi.k8s.io/".__add__), NAMES, max_size=2),
)
def test_whatever_is_answered_is_refused_or_a_file(envs, paths, names, annotations):
    """A file says each env and path as it was answered, and only names of CDI devices are passed on."""
    try:
        answer = answered(
            envs=envs,
            mounts=[pb.Mount(container_path=inside, host_path=outside) for inside, outside in paths],
            cdi_devices=[pb.CDIDevice(name=name) for name in names],
            annotations=annotations,
        )
    except UnusableAnswerError:
        return
    prepared = prepare_request(DRIVER, UID, "one/sub", answer)
    content = cdi_content(DRIVER, UID, {"one/sub": prepared})

    assert all(DEVICE.fullmatch(name) for name in prepared.cdi_devices)
    assert bool(content) == bool(envs or paths)
    if content:
        edits = json.loads(content)["devices"][0]["containerEdits"]
        assert dict(each.split("=", 1) for each in edits.get("env", ())) == envs
        mounts = [(each["containerPath"], each["hostPath"]) for each in edits.get("mounts", ())]
        assert mounts == paths


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"envs": {"A=B": "c"}}, "envs has the name 'A=B'"),
        ({"mounts": [pb.Mount(container_path="etc", host_path="/etc")]}, "no absolute paths"),
        ({"mounts": [pb.Mount(container_path="/etc", host_path="/e\0")]}, "mounts has '/e\\x00' at '/etc'"),
        (
            {"devices": [pb.DeviceSpec(container_path="/d\0", host_path="/d")]},
            "devices has '/d' at '/d\\x00'",
        ),
        (
            {"devices": [pb.DeviceSpec(container_path="/d", host_path="/d", permissions="x")]},
            "permissions 'x'",
        ),
        ({"cdi_devices": [pb.CDIDevice(name="gpu0")]}, "cdi_devices has 'gpu0'"),
        ({"cdi_devices": [pb.CDIDevice(name="a.com/1g=0")]}, "cdi_devices has 'a.com/1g=0'"),
    ],
)
def test_answers_that_no_file_can_say(fields, says):
    """The pod is told which field of the plugin's answer it is."""
    with pytest.raises(UnusableAnswerError, match=re.escape(says)):
        answered(**fields)


@pytest.mark.parametrize(
    ("driver", "kind"), [(DRIVER, f"{DRIVER}/claim"), ("10gbe.vendor.com", "dra_10gbe.vendor.com/claim")]
)
def test_vendor_of_a_kind_begins_with_a_letter(driver, kind):
    """Also where the resource's name does not, since a runtime refuses the file otherwise."""
    assert cdi_kind(driver) == kind


def test_what_is_lost_is_told():
    """Annotations that are none of CDI, and an env that two requests set to different values."""
    answers = {
        "one": answered(envs={"A": "1", "B": "1"}, annotations={"x/y": "z"}),
        "two": answered(envs={"A": "2", "B": "1"}, annotations={"cdi.k8s.io/x": "a/b=c"}),
    }

    assert unbridged(answers) == [
        "request one: container annotations are not passed on: x/y",
        "requests one and two set env A: a container that uses both has one of them",
    ]
