"""The objects of other groups as far as allocation sees them: metadata, nodes and their selectors, pods, their groups.

Source: k8s.io/api/core/v1, k8s.io/api/scheduling and k8s.io/apimachinery/pkg/apis/meta/v1 of Kubernetes 1.37.
"""

from dataclasses import dataclass, field

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.names import GROUP, RESERVATION_KIND
from dra_operator.api.wire import Amount, Flag, Items, Json, Table, Whole, Wire


@dataclass(frozen=True, slots=True)
class OwnerReference(Wire):
    """An owner of an object; `controller` marks the one that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: Flag = False

    @property
    def is_reservation(self) -> bool:
        """True of a DeviceReservation that manages the object."""
        return self.controller and self.kind == RESERVATION_KIND and self.api_version.startswith(f"{GROUP}/")


@dataclass(frozen=True, slots=True)
class Metadata(Wire):
    """The part of ObjectMeta that decisions use. Times are RFC 3339 text in UTC, which sorts as time does."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Whole = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Table[str] = field(default_factory=dict)
    annotations: Table[str] = field(default_factory=dict)
    finalizers: Items[str] = ()
    owner_references: Items[OwnerReference] = ()

    @property
    def reservation(self) -> OwnerReference | None:
        """The DeviceReservation that manages the object, which is a claim then."""
        return next((each for each in self.owner_references if each.is_reservation), None)

    @property
    def is_made_for_pods(self) -> bool:
        """True if a controller manages the object, but for a DeviceReservation: a claim is decided with its pod."""
        return any(each.controller for each in self.owner_references) and self.reservation is None


# --- node selection


@fast_dataclass
class NodeSelectorRequirement(Wire):
    """One comparison: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: Items[str] = ()


@fast_dataclass
class NodeSelectorTerm(Wire):
    """Requirements that must all hold; an empty term matches nothing."""

    match_expressions: Items[NodeSelectorRequirement] = ()
    match_fields: Items[NodeSelectorRequirement] = ()


@fast_dataclass
class NodeSelector(Wire):
    """Terms of which one must hold."""

    node_selector_terms: Items[NodeSelectorTerm] = ()


# --- nodes, namespaces, pods


@dataclass(frozen=True, slots=True)
class Condition(Wire):
    """A condition of a node or pod: its type, whether it holds, and a word that says why."""

    type: str = ""
    status: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeSpec(Wire):
    """Whether a node is cordoned."""

    unschedulable: Flag = False


@dataclass(frozen=True, slots=True)
class NodeStatus(Wire):
    """A node's conditions, features, what it has and what of that it offers."""

    conditions: Items[Condition] = ()
    declared_features: Items[str] = ()
    capacity: Table[Json] = field(default_factory=dict)
    allocatable: Table[Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node(Wire):
    """A node, as far as allocation looks at it."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


@dataclass(frozen=True, slots=True)
class Namespace(Wire):
    """A namespace; its labels permit admin access."""

    metadata: Metadata = field(default_factory=Metadata)


@dataclass(frozen=True, slots=True)
class PodResourceClaim(Wire):
    """A claim that a pod or a group of pods names, or the template it is made from."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@dataclass(frozen=True, slots=True)
class PodResourceClaimStatus(Wire):
    """The claim made for an entry of a pod or a group; without a name none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


@dataclass(frozen=True, slots=True)
class PodExtendedResourceClaimStatus(Wire):
    """The claim that serves a pod's extended resources."""

    resource_claim_name: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRequirements(Wire):
    """What a container requests and may use at most, by resource name."""

    requests: Table[Amount] = field(default_factory=dict)
    limits: Table[Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container(Wire):
    """A container and its resources; the restart policy Always makes an init container one that lasts."""

    name: str = ""
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str = ""


@dataclass(frozen=True, slots=True)
class PodSchedulingGroup(Wire):
    """The PodGroup that a pod belongs to."""

    pod_group_name: str | None = None


@dataclass(frozen=True, slots=True)
class PodSchedulingGate(Wire):
    """A gate: as long as a pod has one, kube-scheduler does not look at it."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec(Wire):
    """The claims of a pod, its containers, its group, when it is scheduled, and the node it was bound to."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Whole | None = None
    priority_class_name: str = ""
    scheduling_gates: Items[PodSchedulingGate] = ()
    init_containers: Items[Container] = ()
    containers: Items[Container] = ()
    resource_claims: Items[PodResourceClaim] = ()
    scheduling_group: PodSchedulingGroup | None = None


@dataclass(frozen=True, slots=True)
class PodStatus(Wire):
    """The phase of a pod, its conditions, the node that is kept for it, and the claims made for it."""

    phase: str = ""
    conditions: Items[Condition] = ()
    nominated_node_name: str = ""
    resource_claim_statuses: Items[PodResourceClaimStatus] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


@dataclass(frozen=True, slots=True)
class Pod(Wire):
    """A pod, as far as it uses claims."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


@dataclass(frozen=True, slots=True)
class PodGroupSpec(Wire):
    """The claims that the pods of a group share."""

    resource_claims: Items[PodResourceClaim] = ()


@dataclass(frozen=True, slots=True)
class PodGroupStatus(Wire):
    """The claims made for a group."""

    resource_claim_statuses: Items[PodResourceClaimStatus] = ()


@dataclass(frozen=True, slots=True)
class PodGroup(Wire):
    """A group of pods, as far as its pods share claims. Source: scheduling.k8s.io."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)
