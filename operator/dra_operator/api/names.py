"""Well-known names: finalizers, annotations and labels that matter to us, and the random names we make.

Nothing else is imported here, since commands that need no cluster use the same names as the writer that speaks to one.
"""

from collections.abc import Callable, Mapping
from typing import Final

FIELD_MANAGER = "dra-operator"
"""As whom the operator writes, in `metadata.managedFields`."""
FINALIZER = "resource.kubernetes.io/delete-protection"
"""On every claim that has an allocation. Source: k8s.io/api/resource/v1, `Finalizer`."""
PENDING_ANNOTATION = "dra-operator.io/pending"
"""On every claim of ours that waits: one line that says for what."""
BROKEN_ANNOTATION = "dra-operator.io/broken"
"""On every claim whose allocation cannot be used any more: one line that says why."""
OWNED_KEY = "dra-operator.io/owned"
"""Key of the taint by which a device is ours: with the effect NoSchedule and without a value."""
OWNED_FINALIZER = OWNED_KEY
"""On every DeviceTaintRule that owns devices, until the operator has no write for them under way."""
SETTLED_ANNOTATION = "dra-operator.io/settled"
"""On a DeviceTaintRule that owns devices: its uid, the generation that has been in force for long enough, and the uids
of the policy that protects it and of its binding."""
POLICY_FINALIZER = "dra-operator.io/allocation-policy"
"""On the DeviceTaintRules of AllocationPolicies: keeps the taint while claims hold devices that are given back."""
GIVE_BACK_ANNOTATION = "dra-operator.io/give-back"
"""On an AllocationPolicy: with `in-use`, its devices are given back although claims hold them."""
GROUP: Final = "dra-operator.io"
GROUP_VERSION: Final = "v1alpha1"
"""The API group of our own kinds, and its version."""
RESERVATION_KIND: Final = "DeviceReservation"
RESERVATION_RESOURCE: Final = "devicereservations"
"""What `status.reservedFor` of a claim calls a reservation, with our group."""
TEMPLATE_ANNOTATION: Final = "dra-operator.io/template"
"""On the claims of a DeviceReservation: the uid of the template that they were made of."""
MAINTENANCE_KEY: Final = "dra-operator.io/maintenance"
"""Key of the taint on devices in maintenance, with the effect NoSchedule and without a value."""
KOPF_FINALIZER = "dra-operator.io/kopf"
"""On objects of our own kinds, until their handlers have let go of them."""
GATE = "dra-operator.io/allocation"
"""The scheduling gate of a pod whose devices the operator decides. Source: docs/pods.md."""
LET_GO_ANNOTATION = "dra-operator.io/let-go"
"""On a pod whose gate came off after a decision: when, the node that it was decided for, and the pod's uid."""
OPT_OUT_LABEL = "dra-operator.io/allocate"
"""Label of a claim; `"false"` keeps the operator away from it, `"true"` says what holds without it."""
CLAIMS_LABEL = "dra-operator.io/claims"
"""Label of a namespace; with this value, its new pods with claims get our scheduling gate."""
MANAGED = "managed"
DEFAULT_SCHEDULER = "default-scheduler"
"""Who places a pod that names nobody."""
ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
"""Label of a namespace whose claims may ask for admin access, with the value `true`."""
POD_GROUP_WORDS: Final = ("podgroup", "podgroups", "podgroup.scheduling.k8s.io")
"""What a PodGroup may be called, as by kubectl."""
GANG_ANNOTATION: Final = "dra-operator.io/gang"
"""On pods: those of a namespace that have the same value are a gang."""
GANG_MATCH_ANNOTATION: Final = "dra-operator.io/gang-match"
"""On pods or their PodGroup: the attribute of which all results have one value, `ATTRIBUTE[;class=CLASS,…]`."""
GANG_TOPOLOGY_ANNOTATION: Final = "dra-operator.io/gang-topology"
"""On pods or their PodGroup: the label of which all nodes of the gang have one value."""
GANG_SIZE_ANNOTATION: Final = "dra-operator.io/gang-size"
"""On pods or their PodGroup: with how many gated, let go or bound pods the operator decides the gang."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""On a claim made for a pod: the pod's entry it was made for. Source: the claim controller."""
SPECIAL_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Marks a claim that was made for a pod's extended resources, by the value `true`."""
BRIDGE_ANNOTATION: Final = "bridge.dra-operator.io/resource"
"""On each slice of the bridge: the resource name of the device plugin whose devices it has."""
BIND_COMPLETED_ANNOTATION: Final = "pv.kubernetes.io/bind-completed"
BETA_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""On a PersistentVolumeClaim: that it is bound, and its class as old manifests name it."""
LEASE_NAME: Final = "dra-operator"
"""The Lease by which one of several operators decides."""
OWNED_POLICY: Final = "dra-operator-owned"
MAINTENANCE_POLICY: Final = "dra-operator-maintenance"
"""The policy that is the fence around owned devices, and its binding; so for the other policies."""
OWNED_RULES_POLICY: Final = "dra-operator-owned-rules"
"""The policy that keeps the rules that own devices as they are."""
OWNED_TOLERATIONS_POLICY: Final = "dra-operator-owned-tolerations"
"""The policy that refuses claims that tolerate the taint of owned devices."""
GATES_POLICY: Final = "dra-operator-gates"
"""The policy that confines what the operator writes to pods, and the one that gives pods the gate."""
KNOWN_ANNOTATIONS: Final = frozenset(
    (
        PENDING_ANNOTATION,
        BROKEN_ANNOTATION,
        SETTLED_ANNOTATION,
        LET_GO_ANNOTATION,
        GANG_ANNOTATION,
        GANG_MATCH_ANNOTATION,
        GANG_TOPOLOGY_ANNOTATION,
        GANG_SIZE_ANNOTATION,
        TEMPLATE_ANNOTATION,
        POD_CLAIM_NAME,
        SPECIAL_CLAIM_ANNOTATION,
        BRIDGE_ANNOTATION,
        BIND_COMPLETED_ANNOTATION,
        BETA_CLASS_ANNOTATION,
    )
)
"""All that the operator reads of the annotations of watched objects."""
KNOWN_LABELS: Final = frozenset((OPT_OUT_LABEL,))
"""All that it reads of the labels of objects in namespaces."""
ENDED_PHASES = frozenset(("Succeeded", "Failed"))
"""The phases of a pod that has ended."""
SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The priority classes that every cluster has. Source: k8s.io/kubernetes/pkg/apis/scheduling."""
RANDOM_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What the API server makes the random ends of names of. Source: k8s.io/apimachinery/pkg/util/rand."""


_VERSION: Final = 0x4000 << 64 | 0x8000 << 48
_RANDOM: Final = ~(0xF000 << 64 | 0xC000 << 48)


def share_id(random_bits: Callable[[int], int]) -> str:
    """Return a UUID of version 4 of random bits, of which a source gives so many as an int."""
    digits = f"{random_bits(128) & _RANDOM | _VERSION:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
