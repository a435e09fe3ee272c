"""`kubectl describe` without kubectl. The expected text is what kubectl 1.37.2 prints for the same objects."""

from datetime import UTC, datetime

import pytest

from dra_operator.cli.describe import align, describe, label

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "name": "all-gpus",
        "namespace": "default",
        "labels": {"a": "b", "c": "d"},
        "annotations": {"dra-operator.io/pending": "request gpu: 16 devices published", "x": "y"},
        "creationTimestamp": "2026-11-21T10:14:37Z",
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "managedFields": [{"manager": "dra-operator"}],
        "resourceVersion": "6",
        "uid": "e234df6a-6a58-42d7-9be5-a3f24c1cefab",
    },
    "spec": {
        "devices": {
            "constraints": [{"matchAttribute": "a/b", "requests": ["gpu", "x"]}],
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "c",
                        "allocationMode": "All",
                        "adminAccess": True,
                        "selectors": [{"cel": {"expression": 'a == "x" &&\n b'}}],
                    },
                }
            ],
        }
    },
    "status": {
        "allocation": {
            "allocationTimestamp": "2026-01-01T00:00:00Z",
            "devices": {
                "results": [
                    {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0", "shareID": "abc"},
                    {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-1"},
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                ]
            },
        }
    },
}
EVENTS = [
    {
        "type": "Normal",
        "reason": "Allocated",
        "message": "allocated d/p/gpu-0 on node node-1",
        "count": 1,
        "firstTimestamp": "2026-11-21T09:00:00Z",
        "lastTimestamp": "2026-11-21T09:00:00Z",
        "source": {"component": "dra-operator"},
    },
    {
        "type": "Normal",
        "reason": "DeviceInUse",
        "message": "longer message here",
        "count": 3,
        "firstTimestamp": "2026-11-21T08:00:00Z",
        "lastTimestamp": "2026-11-21T09:30:00Z",
        "source": {"component": "dra-operator"},
    },
]
NOW = datetime(2026, 11, 21, 10, 14, 40, tzinfo=UTC)
KUBECTL = """\
Name:         all-gpus
Namespace:    default
Labels:       a=b
              c=d
Annotations:  dra-operator.io/pending: request gpu: 16 devices published
              x: y
API Version:  resource.k8s.io/v1
Kind:         ResourceClaim
Metadata:
  Creation Timestamp:  2026-11-21T10:14:37Z
  Finalizers:
    resource.kubernetes.io/delete-protection
  Resource Version:  6
  UID:               e234df6a-6a58-42d7-9be5-a3f24c1cefab
Spec:
  Devices:
    Constraints:
      Match Attribute:  a/b
      Requests:
        gpu
        x
    Requests:
      Exactly:
        Admin Access:       true
        Allocation Mode:    All
        Device Class Name:  c
        Selectors:
          Cel:
            Expression:  a == "x" &&
 b
      Name:  gpu
Status:
  Allocation:
    Allocation Timestamp:  2026-01-01T00:00:00Z
    Devices:
      Results:
        Device:    gpu-0
        Driver:    d
        Pool:      p
        Request:   gpu
        Share ID:  abc
        Device:    gpu-1
        Driver:    d
        Pool:      p
        Request:   gpu
    Node Selector:
      Node Selector Terms:
        Match Fields:
          Key:       metadata.name
          Operator:  In
          Values:
            node-1
Events:
  Type    Reason       Age                 From          Message
  ----    ------       ----                ----          -------
  Normal  Allocated    74m                 dra-operator  allocated d/p/gpu-0 on node node-1
  Normal  DeviceInUse  44m (x3 over 134m)  dra-operator  longer message here
"""


def test_the_text_is_that_of_kubectl():
    """A claim with everything that matters comes out as kubectl prints it, to the letter."""
    assert describe(CLAIM, EVENTS, NOW) == KUBECTL


def test_absent_labels_annotations_and_events_are_none():
    """What is not there is said to be not there."""
    metadata = {"name": "gpu", "namespace": "default"}
    bare = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}}

    lines = describe(bare, [], NOW).splitlines()

    assert lines[2:4] == ["Labels:       <none>", "Annotations:  <none>"]
    assert lines[-1] == "Events:  <none>"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("allocationTimestamp", "Allocation Timestamp"),
        ("uid", "UID"),
        ("shareID", "Share ID"),
        ("cel", "Cel"),
    ],
)
def test_a_field_is_named_in_words(name, words):
    """Camel case becomes words, well-known acronyms capitals."""
    assert label(name) == words


def test_columns_end_where_lines_without_them_stand():
    """A line without a value separates what is above from what is below."""
    assert align(["a:\t1", "long name:\t2", "heading:", "b:\t3"]) == (
        "a:          1\nlong name:  2\nheading:\nb:  3\n"
    )


def test_long_annotations_stand_alone_and_are_cut():
    """As kubectl does: a line of their own, 138 bytes of it, no half character; kubectl's own annotation is hidden."""
    annotations = {
        "a": "one\ntwo",
        "b": "é" * 90,
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "annotations": annotations}}

    lines = describe(body, [], datetime(2026, 1, 1, tzinfo=UTC)).splitlines()

    assert [line.strip() for line in lines[3:8]] == [
        "Annotations:  a:",
        "one",
        "two",
        "b:",
        "é" * 69 + "...",
    ]
    assert "last-applied" not in "".join(lines)
