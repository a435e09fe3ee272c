"""The closed list of reasons why a claim is not allocated, or a pod has no node for its claims.

One word for one cause, used alike in Events, the annotation on the claim, metrics, logs and commands; `docs/reasons.md`
says for each what it means and what to do. `docs/contributing.md` lists what a new one needs.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a claim or a pod waits, or what ended an attempt to allocate it."""

    # Something in the claim, or in what it refers to, is wrong; retrying does not help until that is changed.
    CLASS_NOT_FOUND = "ClassNotFound"
    SELECTOR_INVALID = "SelectorInvalid"
    SELECTOR_FAILED = "SelectorFailed"
    DERIVED_ATTRIBUTE_FAILED = "DerivedAttributeFailed"
    REQUEST_UNSUPPORTED = "RequestUnsupported"
    TOO_MANY_DEVICES = "TooManyDevices"
    CAPACITY_REQUEST_INVALID = "CapacityRequestInvalid"
    ADMIN_ACCESS_DENIED = "AdminAccessDenied"
    CONSTRAINT_CONFLICT = "ConstraintConflict"
    NODE_SELECTOR_INVALID = "NodeSelectorInvalid"

    # Nothing is wrong with the claim; the devices are not there, or not available.
    NO_NODES = "NoNodes"
    NO_DEVICES = "NoDevices"
    CLASS_MATCHES_NO_DEVICE = "ClassMatchesNoDevice"
    SELECTOR_MATCHES_NO_DEVICE = "SelectorMatchesNoDevice"
    POOL_INCOMPLETE = "PoolIncomplete"
    POOL_INVALID = "PoolInvalid"
    CAPACITY_TOO_SMALL = "CapacityTooSmall"
    DEVICE_NOT_OWNED = "DeviceNotOwned"
    DEVICE_TAINTED = "DeviceTainted"
    NODE_UNUSABLE = "NodeUnusable"
    NODE_OPERATIONS_UNSUPPORTED = "NodeOperationsUnsupported"
    DEVICE_IN_USE = "DeviceInUse"
    COUNTERS_EXHAUSTED = "CountersExhausted"
    CAPACITY_EXHAUSTED = "CapacityExhausted"
    GROUP_INCOMPATIBLE = "GroupIncompatible"
    NOT_ENOUGH_DEVICES = "NotEnoughDevices"
    CONSTRAINT_UNSATISFIABLE = "ConstraintUnsatisfiable"
    REQUESTS_DO_NOT_FIT_TOGETHER = "RequestsDoNotFitTogether"

    # Of pods: what they name is not there, or fits nowhere that they can go.
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_NOT_CREATED = "ClaimNotCreated"
    CLAIM_NOT_FOR_POD = "ClaimNotForPod"
    CLAIM_RESERVED_TOO_OFTEN = "ClaimReservedTooOften"
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    NODE_UNSUITABLE = "NodeUnsuitable"
    ALLOCATED_NODE_UNSUITABLE = "AllocatedNodeUnsuitable"
    CLAIMS_DO_NOT_FIT_TOGETHER = "ClaimsDoNotFitTogether"
    NOT_SCHEDULED = "NotScheduled"

    # The attempt was given up.
    SEARCH_ABORTED = "SearchAborted"
