"""Removal: the objects of a cluster without some of them, and without what ends with them.

As Kubernetes does it: the claims made for a pod end with it, and a claim is deallocated when no pod uses it any more.
Source: kube-controller-manager's `resourceclaim`, docs/dra-semantics 8.10.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from dra_operator.api.core import Pod
from dra_operator.api.text import near_object
from dra_operator.api.types import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceSlice,
)
from dra_operator.pods.objects import Key, ObjectRecord
from dra_operator.questions.answers import UnknownObjectError
from dra_operator.questions.contents import DEFAULT_NAMESPACE, LoadResult

_Name: TypeAlias = tuple[str, str]


def remove_objects(
    objects: LoadResult,
    *,
    claims: Iterable[str] = (),
    pods: Iterable[str] = (),
    nodes: Iterable[str] = (),
    drivers: Iterable[str] = (),
) -> LoadResult:
    """Return the objects without some of them; claims and pods are named `namespace/name`. Raises UnknownObjectError.

    Slices and pods of a node are gone with it. An allocation that can be used only there is not: it stays until its
    claim is deallocated.
    """
    gone: set[Key] = {_find(objects, "ResourceClaim", name) for name in claims}
    gone_pods = {_find(objects, "Pod", name) for name in pods}
    gone_nodes = {_find(objects, "Node", name)[2] for name in nodes}
    gone_drivers = set(drivers)
    slices: list[ResourceSlice] = [record.obj for record in objects.of_kind("ResourceSlice")]
    if unknown := gone_drivers - {item.spec.driver for item in slices}:
        name = min(unknown)
        raise UnknownObjectError(f'no ResourceSlice is of driver "{name}"{_meant(name, _drivers(slices))}')
    gone |= {("Node", "", name) for name in gone_nodes}
    gone |= {
        ("ResourceSlice", "", item.metadata.name)
        for item in slices
        if item.spec.driver in gone_drivers or item.spec.node_name in gone_nodes
    }
    gone_pods |= {
        ("Pod", record.obj.metadata.namespace, record.obj.metadata.name)
        for record in objects.of_kind("Pod")
        if record.obj.spec.node_name in gone_nodes
    }
    records = {key: record for key, record in objects.records.items() if key not in gone | gone_pods}
    if gone_pods:
        ended = _Users([objects.records[key].obj for key in gone_pods])
        for record in objects.of_kind("ResourceClaim"):
            key = "ResourceClaim", record.obj.metadata.namespace, record.obj.metadata.name
            if key not in records:
                continue
            if ended.own(record.obj):
                del records[key]
            else:
                records[key] = ended.leave(record)
    # Where the last node or pod is gone, there is none; where none was given, nothing is known of the others.
    listed = {kind for kind, names in (("Node", gone_nodes), ("Pod", gone_pods)) if names}
    return replace(objects, records=records, listed=objects.listed | listed)


class _Users:
    """Pods that end."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._uids = {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in pods}

    def own(self, claim: ResourceClaim) -> bool:
        """Return whether a claim was made for one of them."""
        return any(
            owner.controller
            and owner.kind == "Pod"
            and self._uids.get((claim.metadata.namespace, owner.name)) == owner.uid
            for owner in claim.metadata.owner_references
        )

    def leave(self, record: ObjectRecord) -> ObjectRecord:
        """Return a claim that they do not use any more; if nobody else does, it is deallocated."""
        claim: ResourceClaim = record.obj
        users = claim.status.reserved_for
        left = tuple([user for user in users if not self._is_gone(claim.metadata.namespace, user)])
        if left == users:
            return record
        if not left:
            body = {name: value for name, value in record.body.items() if name != "status"}
            return replace(record, body=body, obj=replace(claim, status=ResourceClaimStatus()))
        return replace(record, obj=replace(claim, status=replace(claim.status, reserved_for=left)))

    def _is_gone(self, namespace: str, user: ResourceClaimConsumerReference) -> bool:
        is_pod = (user.api_group, user.resource) == ("", "pods")
        return is_pod and (namespace, user.name) in self._uids


def split_name(text: str) -> _Name:
    """Return namespace and name of a text `namespace/name`; without a namespace it is the default one."""
    namespace, slash, name = text.rpartition("/")
    return (namespace, name) if slash else (DEFAULT_NAMESPACE, name)


def _find(objects: LoadResult, kind: str, text: str) -> Key:
    key = (kind, "", text) if kind == "Node" else (kind, *split_name(text))
    if key in objects.records:
        return key
    names = [each[2] for each in objects.records if each[:2] == key[:2]]
    raise UnknownObjectError(f'there is no {kind} "{text}"{_meant(key[2], names)}')


def _drivers(slices: Iterable[ResourceSlice]) -> list[str]:
    return sorted({item.spec.driver for item in slices})


def _meant(name: str, names: Iterable[str]) -> str:
    near = near_object(name, names)
    return f'; did you mean "{near}"?' if near else ""
