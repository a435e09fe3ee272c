"""The objects of resource.k8s.io/v1, as frozen, slotted dataclasses; `api.core` has those of the core group.

Names are the API's, in snake case; the wire's camel case is an alias (`api.wire`). Fields the operator never
looks at are left out; what is only carried through to a result is kept as it came (`Json`).
Source: k8s.io/api/resource/v1 of Kubernetes 1.37.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from dra_operator.api.core import Metadata, NodeSelector
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Quantity
from dra_operator.api.wire import Amount, Attributes, Flag, Items, Json, Table, Whole, Wire, interned

_NOTHING: Final = Quantity(0)
"""What an amount is that is not said: Go's zero value, which the API server stores."""

# --- selectors, configuration, taints


@dataclass(frozen=True, slots=True)
class CELSelector(Wire):
    """A CEL expression that says whether a device fits."""

    expression: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSelector(Wire):
    """A selector; `cel` is the only kind there is, and must be set."""

    cel: CELSelector | None = None


@dataclass(frozen=True, slots=True)
class OpaqueConfiguration(Wire):
    """Parameters that only the driver understands."""

    driver: str = ""
    parameters: Json = None


@dataclass(frozen=True, slots=True)
class DeviceConfiguration(Wire):
    """Configuration in a class (`requests` stays empty), or in a claim or its allocation (for these requests, or all).

    `source` is of an allocation alone: FromClass or FromClaim.
    """

    source: str = ""
    requests: Items[str] = ()
    opaque: OpaqueConfiguration | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint(Wire):
    """Keeps claims that do not tolerate it away with effect NoSchedule or NoExecute; any other does nothing."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceToleration(Wire):
    """Lets a request take devices in spite of a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Whole | None = None


# --- DeviceClass


@dataclass(frozen=True, slots=True)
class DeviceClassSpec(Wire):
    """Selectors that must all be true, and configuration for every allocation that used the class."""

    selectors: Items[DeviceSelector] = ()
    config: Items[DeviceConfiguration] = ()
    extended_resource_name: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceClass(Wire):
    """A named kind of device, made by an admin."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


# --- ResourceClaim


@dataclass(frozen=True, slots=True)
class CapacityRequirements(Wire):
    """Amounts of a device's capacities that a request needs, by literal capacity name."""

    requests: Table[Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DerivedAttribute(Wire):
    """An attribute computed by a CEL expression, for constraints only (alpha in 1.37)."""

    name: str = ""
    expression: str = ""


@dataclass(frozen=True, slots=True)
class ExactDeviceRequest(Wire):
    """A request for a number of devices, or for all, of one class; `api.convert` applies its defaults."""

    device_class_name: str = ""
    selectors: Items[DeviceSelector] = ()
    allocation_mode: str = ""
    count: Whole = 0
    admin_access: Flag | None = None
    tolerations: Items[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: Items[DerivedAttribute] = ()


@dataclass(frozen=True, slots=True)
class DeviceSubRequest(Wire):
    """One alternative of a prioritized list; the full name is `<request>/<name>`."""

    name: str = ""
    device_class_name: str = ""
    selectors: Items[DeviceSelector] = ()
    allocation_mode: str = ""
    count: Whole = 0
    tolerations: Items[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: Items[DerivedAttribute] = ()


@dataclass(frozen=True, slots=True)
class DeviceRequest(Wire):
    """A named request: `exactly` one thing, or the first of several that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: Items[DeviceSubRequest] = ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint(Wire):
    """A rule over the devices of the named requests, or of all: one attribute is equal, or different."""

    requests: Items[str] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaim(Wire):
    """What a claim asks for."""

    requests: Items[DeviceRequest] = ()
    constraints: Items[DeviceConstraint] = ()
    config: Items[DeviceConfiguration] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ResourceClaimSpec(Wire):
    """The immutable spec of a claim."""

    devices: DeviceClaim = field(default_factory=DeviceClaim)


_ClaimSpec = Annotated[ResourceClaimSpec, interned()]


@fast_dataclass
class DeviceRequestAllocationResult(Wire):
    """One allocated device, or one share of it."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: Flag | None = None
    tolerations: Items[DeviceToleration] = ()
    binding_conditions: Items[str] = ()
    binding_failure_conditions: Items[str] = ()
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    consumed_capacity: Table[Amount] = field(default_factory=dict)
    skip_node_operations: Items[str] = ()


@fast_dataclass
class DeviceAllocationResult(Wire):
    """The devices of an allocation and their configuration."""

    results: Items[DeviceRequestAllocationResult] = ()
    config: Items[DeviceConfiguration] = ()


@fast_dataclass
class AllocationResult(Wire):
    """An allocation; without `node_selector` it can be used on every node."""

    devices: DeviceAllocationResult = field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    @property
    def skips_node_operations(self) -> bool:
        """True if pods can only use it on nodes whose kubelets can skip node operations."""
        return any(result.skip_node_operations for result in self.devices.results)


@dataclass(frozen=True, slots=True)
class ResourceClaimConsumerReference(Wire):
    """A pod (or other object) that may use the claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ResourceClaimStatus(Wire):
    """Allocation, consumers, and what drivers report about the devices."""

    allocation: AllocationResult | None = None
    reserved_for: Items[ResourceClaimConsumerReference] = ()
    devices: Items[Json] = ()


@dataclass(frozen=True, slots=True)
class ResourceClaim(Wire):
    """A request for devices and, in its status, the answer."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: _ClaimSpec = field(default_factory=ResourceClaimSpec)
    status: Annotated[ResourceClaimStatus, BeforeValidator(lambda value: value or {})] = field(
        default_factory=ResourceClaimStatus
    )


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplateSpec(Wire):
    """What a claim made from the template gets: labels and annotations, and its spec."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: _ClaimSpec = field(default_factory=ResourceClaimSpec)


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate(Wire):
    """A pattern for the claims of pods."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: ResourceClaimTemplateSpec = field(default_factory=ResourceClaimTemplateSpec)


# --- ResourceSlice


@dataclass(frozen=True, slots=True)
class CapacityRequestPolicyRange(Wire):
    """Amounts from `min` to `max` in steps."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


@dataclass(frozen=True, slots=True)
class CapacityRequestPolicy(Wire):
    """How much of a capacity one share may consume."""

    default: Amount | None = None
    valid_values: Items[Amount] = ()
    valid_range: CapacityRequestPolicyRange | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity(Wire):
    """An amount that a device has."""

    value: Amount = _NOTHING
    request_policy: CapacityRequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class Counter(Wire):
    """An amount in a counter set, or taken from it."""

    value: Amount = _NOTHING


@dataclass(frozen=True, slots=True)
class CounterSet(Wire):
    """Counters that the partitions of a device share."""

    name: str = ""
    counters: Table[Counter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceCounterConsumption(Wire):
    """What a device takes from a counter set while it is in use."""

    counter_set: str = ""
    counters: Table[Counter] = field(default_factory=dict)
    compatibility_groups: Items[str] = ()


@fast_dataclass
class Device(Wire):
    """One device of a slice."""

    name: str = ""
    attributes: Attributes = field(default_factory=dict)
    capacity: Table[DeviceCapacity] = field(default_factory=dict)
    consumes_counters: Items[DeviceCounterConsumption] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Flag | None = None
    taints: Items[DeviceTaint] = ()
    binds_to_node: Flag | None = None
    binding_conditions: Items[str] = ()
    binding_failure_conditions: Items[str] = ()
    allow_multiple_allocations: Flag | None = None
    node_allocatable_resources: Json = None


@dataclass(frozen=True, slots=True)
class ResourcePool(Wire):
    """The pool a slice belongs to, and how many slices its generation has."""

    name: str = ""
    generation: Whole = 0
    resource_slice_count: Whole = 0


@dataclass(frozen=True, slots=True)
class ResourceSliceSpec(Wire):
    """What a driver publishes."""

    driver: str = ""
    pool: ResourcePool = field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Flag | None = None
    per_device_node_selection: Flag | None = None
    devices: Items[Device] = ()
    shared_counters: Items[CounterSet] = ()
    skip_node_operations: Items[str] = ()


@dataclass(frozen=True, slots=True)
class ResourceSlice(Wire):
    """A part of a pool of devices."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)


# --- DeviceTaintRule


@dataclass(frozen=True, slots=True)
class DeviceTaintSelector(Wire):
    """Exact matches, all of which must hold; absent fields match everything.

    Only Kubernetes 1.33 and 1.34 have the last two, in v1alpha3.
    """

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: Items[DeviceSelector] = ()


@dataclass(frozen=True, slots=True)
class DeviceTaintRuleSpec(Wire):
    """A taint and the devices that get it; without a selector, none."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = field(default_factory=DeviceTaint)


@dataclass(frozen=True, slots=True)
class DeviceTaintRule(Wire):
    """A taint put on devices by an admin."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: DeviceTaintRuleSpec = field(default_factory=DeviceTaintRuleSpec)
