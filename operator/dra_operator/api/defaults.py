"""The API's defaults, for objects that passed no API server: files, tests, recorded scenarios.

The API server applies them when an object is written, so what comes from a cluster has them already. One is
missing here: a taint's `timeAdded` becomes the time of writing, and nothing in this package knows the time.
Source: k8s.io/kubernetes/pkg/apis/resource/v1, `SetDefaults_…`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dra_operator.api import types

_T = TypeVar("_T")
_Request = TypeVar("_Request", types.ExactDeviceRequest, types.DeviceSubRequest)


def apply_defaults(obj: _T) -> _T:
    """Return `obj` with the API's defaults: allocation mode ExactCount, count 1, toleration operator Equal.

    Objects of kinds without defaults, and those that have them all, are returned as they are.
    """
    if isinstance(obj, types.ResourceClaim):
        spec, status = _spec(obj.spec), obj.status
        if status.allocation is not None:
            allocation = _allocation(status.allocation)
            status = status if allocation is status.allocation else replace(status, allocation=allocation)
        return obj if spec is obj.spec and status is obj.status else replace(obj, spec=spec, status=status)
    if isinstance(obj, types.ResourceClaimTemplate):
        spec = _spec(obj.spec.spec)
        return obj if spec is obj.spec.spec else replace(obj, spec=replace(obj.spec, spec=spec))
    return obj


def _spec(spec: types.ResourceClaimSpec) -> types.ResourceClaimSpec:
    requests = _each(_request, spec.devices.requests)
    if requests is spec.devices.requests:
        return spec
    return replace(spec, devices=replace(spec.devices, requests=requests))


def _request(request: types.DeviceRequest) -> types.DeviceRequest:
    exactly = None if request.exactly is None else _exact(request.exactly)
    alternatives = _each(_exact, request.first_available)
    if exactly is request.exactly and alternatives is request.first_available:
        return request
    return replace(request, exactly=exactly, first_available=alternatives)


def _exact(request: _Request) -> _Request:
    mode = request.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and request.count == 0 else request.count
    tolerations = _each(_toleration, request.tolerations)
    if mode == request.allocation_mode and count == request.count and tolerations is request.tolerations:
        return request
    return replace(request, allocation_mode=mode, count=count, tolerations=tolerations)


def _toleration(toleration: types.DeviceToleration) -> types.DeviceToleration:
    return toleration if toleration.operator else replace(toleration, operator="Equal")


def _allocation(allocation: types.AllocationResult) -> types.AllocationResult:
    results = _each(_result, allocation.devices.results)
    if results is allocation.devices.results:
        return allocation
    return replace(allocation, devices=replace(allocation.devices, results=results))


def _result(result: types.DeviceRequestAllocationResult) -> types.DeviceRequestAllocationResult:
    tolerations = _each(_toleration, result.tolerations)
    return result if tolerations is result.tolerations else replace(result, tolerations=tolerations)


def _each(change: Callable[[_T], _T], items: tuple[_T, ...]) -> tuple[_T, ...]:
    """Return the items changed; the same tuple if that changes none, since most objects come with their defaults."""
    if not items:
        return items
    changed = tuple(map(change, items))
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed
