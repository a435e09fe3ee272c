"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.pods.smallest_change import Effort
from dra_operator.pods.workloads import find_named
from dra_operator.questions.allocate import AllocateAnswer, allocate
from dra_operator.questions.answers import LINT
from dra_operator.questions.audit import AuditReport, audit
from dra_operator.questions.contents import DEFAULT_NAMESPACE
from dra_operator.questions.copies import Subject
from dra_operator.questions.device_table import HolderQuery
from dra_operator.questions.explain import EFFORT, ExplainAnswer, explain
from dra_operator.questions.fit import FitAnswer, find_fit
from dra_operator.questions.gangs import GangAnswer, explain_gang
from dra_operator.questions.headroom import HeadroomAnswer, find_headroom
from dra_operator.questions.impact import ImpactReport, find_impact
from dra_operator.questions.lint import LintReport, find_lintable, lint, lint_objects
from dra_operator.questions.manifests import Source
from dra_operator.questions.state import ClusterState
from dra_operator.questions.status import StatusReport, find_status
from dra_operator.questions.usage import (
    Grouping,
    HolderReport,
    MissingDevices,
    UsageReport,
    find_holders,
    find_nodes_without_devices,
    find_usage,
)
from dra_operator.questions.waiting import WaitingList, find_waiting
from dra_operator.questions.workload_pods import WorkloadAnswer, explain_new_pods, explain_workload


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing. What is asked about is a reference
    (`Pod/team-a/train-0`, `DeviceClass/gpu.example.com`) to an object that is there, a file, or a mapping.
    """

    def allocate(self) -> AllocateAnswer:
        """Return what would become of all claims that wait, one after the other. Raises QuestionError."""
        return allocate(self)

    def lint(self, source: Source | None = None) -> LintReport:
        """Return what is wrong with the selectors of its classes, claims and templates, or of those of a source.

        The source lies over the objects of the cluster, and only its own are judged.
        """
        if source is not None:
            return lint(source, self)
        return lint_objects(self, find_lintable(self), LINT.optional)

    def explain(self, subject: Subject, effort: Effort | None = EFFORT) -> ExplainAnswer:
        """Return why a pod or a claim waits, request by request, and the smallest changes with which it would not.

        Of a template or a class, or a pod that is not in the cluster, it is what a copy would wait for. `effort` is
        what it may cost to find changes; None finds none. Raises QuestionError.
        """
        return explain(self, subject, effort)

    def explain_workload(self, subject: Subject, effort: Effort | None = EFFORT) -> WorkloadAnswer:
        """Return what becomes of the pods of a workload: `deployment/NAMESPACE/NAME`, or objects of a file.

        Pods that exist are explained, equal ones once, and those that it would make are placed. Raises QuestionError.
        """
        if isinstance(subject, str) and (known := find_named(subject.partition("/")[0])) is not None:
            namespace, _, name = subject.partition("/")[2].rpartition("/")
            return explain_workload(self, known, namespace or DEFAULT_NAMESPACE, name, effort)
        return explain_new_pods(self, subject, effort)

    def explain_gang(self, subject: Subject, copies: int | None = None) -> GangAnswer:
        """Return whether the pods of a gang fit all at once, how many of the first do, and what the next lacks.

        A gang is `podgroup/NAMESPACE/NAME`, that of a pod, the pods of a workload or a file, or `copies` of a template
        of pods. Raises QuestionError.
        """
        return explain_gang(self, subject, copies)

    def waiting(self, namespace: str = "") -> WaitingList:
        """Return the pods and claims that wait for devices, in a namespace or in all. Raises QuestionError."""
        return find_waiting(self, namespace)

    def fit(self, subject: Subject, copies: int | None = None) -> FitAnswer:
        """Return how many of some copies of a Pod, a claim, a template or a class fit, or of a workload's pods.

        They are placed first-fit. Without `copies` it is one, or all pods of the workload. Objects that stand beside it
        lie over those of the cluster. Raises QuestionError.
        """
        return find_fit(self, subject, copies)

    def headroom(self, subject: Subject, by: str = "") -> HeadroomAnswer:
        """Return how many more copies of a template, or devices of a class, there is room for.

        Also the device with the most left, by the capacity `by` or the first, and the free devices that are stranded.
        Raises QuestionError.
        """
        return find_headroom(self, subject, by)

    def holders(
        self,
        *,
        driver: str = "",
        pool: str = "",
        device: str = "",
        node: str = "",
        device_class: str = "",
        namespace: str = "",
        admin_access: bool = False,
        value: str = "",
        pod: str = "",
    ) -> HolderReport:
        """Return which claims hold devices, for which pods and since when; what is given restricts, all of it together.

        `value` is that of an attribute, such as a UUID, `pod` is `namespace/name`. With `admin_access` results of admin
        access are listed as well, which hold nothing. Raises UnknownObjectError.
        """
        query = HolderQuery(driver, pool, device, node, device_class, namespace, admin_access, value, pod)
        return find_holders(self, query)

    def usage(self, grouping: Grouping | str = Grouping.NODE, *, by: str = "") -> UsageReport:
        """Return how many devices are used and free, by `node`, `pool`, `class` or `namespace`.

        The largest device is so by the capacity `by`, or by the first one by name.
        """
        return find_usage(self, Grouping(grouping), by)

    def nodes_without_devices(self) -> MissingDevices:
        """Return the nodes that should publish devices of a driver and do not. Raises QuestionError without nodes."""
        return find_nodes_without_devices(self)

    def status(self) -> StatusReport:
        """Return whether an operator decides, what it owns, how far its pods are, and what is in its way."""
        return find_status(self)

    def audit(self) -> AuditReport:
        """Return what is wrong, the most urgent first, each with what to do."""
        return audit(self)

    def impact(
        self,
        *,
        rule: Mapping[str, Any] | None = None,
        device_class: Mapping[str, Any] | None = None,
        drained_node: str = "",
        removed_driver: str = "",
    ) -> ImpactReport:
        """Return which claims and pods one change hits, and which of them would fit elsewhere.

        The change is a DeviceTaintRule or a DeviceClass that is created or replaced, as on the wire, a node that is
        drained or a driver that is removed. Raises QuestionError for a change that cannot be made.
        """
        return find_impact(
            self,
            rules=() if rule is None else (rule,),
            device_class=device_class,
            drained_node=drained_node,
            removed_driver=removed_driver,
        )
