"""The API's defaults, for objects that passed no API server: files, tests, recorded scenarios.

The API server applies them when an object is written, so what comes from a cluster has them already. One is
missing here: a taint's `timeAdded` becomes the time of writing, and nothing in this package knows the time.
Source: k8s.io/kubernetes/pkg/apis/resource/v1, `SetDefaults_…`.
"""

from dataclasses import replace
from typing import TypeVar

from dra_operator.api.types import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)

_T = TypeVar("_T")
_Request = TypeVar("_Request", ExactDeviceRequest, DeviceSubRequest)


def apply_defaults(obj: _T) -> _T:
    """Return `obj` with the API's defaults: allocation mode ExactCount, count 1, toleration operator Equal.

    Objects of kinds without defaults are returned as they are.
    """
    if isinstance(obj, ResourceClaim):
        allocation = obj.status.allocation
        status = obj.status
        if allocation is not None:
            status = replace(status, allocation=_allocation(allocation))
        return replace(obj, spec=_spec(obj.spec), status=status)
    if isinstance(obj, ResourceClaimTemplate):
        return replace(obj, spec=replace(obj.spec, spec=_spec(obj.spec.spec)))
    return obj


def _spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    return replace(spec, devices=_devices(spec.devices))


def _devices(devices: DeviceClaim) -> DeviceClaim:
    return replace(devices, requests=tuple(_request(request) for request in devices.requests))


def _request(request: DeviceRequest) -> DeviceRequest:
    return replace(
        request,
        exactly=None if request.exactly is None else _exact(request.exactly),
        first_available=tuple(_exact(alternative) for alternative in request.first_available),
    )


def _exact(request: _Request) -> _Request:
    mode = request.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and request.count == 0 else request.count
    return replace(request, allocation_mode=mode, count=count, tolerations=_tolerations(request.tolerations))


def _tolerations(tolerations: tuple[DeviceToleration, ...]) -> tuple[DeviceToleration, ...]:
    return tuple(
        toleration if toleration.operator else replace(toleration, operator="Equal")
        for toleration in tolerations
    )


def _allocation(allocation: AllocationResult) -> AllocationResult:
    results = tuple(
        replace(result, tolerations=_tolerations(result.tolerations)) if result.tolerations else result
        for result in allocation.devices.results
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))
