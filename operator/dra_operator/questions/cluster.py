"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.pods.smallest_change import Effort
from dra_operator.pods.workloads import find_named
from dra_operator.questions.allocate import allocate
from dra_operator.questions.answers import LINT
from dra_operator.questions.audit import audit
from dra_operator.questions.contents import DEFAULT_NAMESPACE
from dra_operator.questions.copies import Subject
from dra_operator.questions.device_table import HolderQuery
from dra_operator.questions.explain import EFFORT, explain
from dra_operator.questions.fit import find_fit
from dra_operator.questions.gangs import explain_gang
from dra_operator.questions.headroom import find_headroom
from dra_operator.questions.impact import ImpactReport, find_impact
from dra_operator.questions.lint import LintReport, find_lintable, lint, lint_objects
from dra_operator.questions.manifests import Source
from dra_operator.questions.state import ClusterState
from dra_operator.questions.status import find_status
from dra_operator.questions.usage import (
    HolderReport,
    find_holders,
    find_nodes_without_devices,
    find_usage,
)
from dra_operator.questions.waiting import find_waiting
from dra_operator.questions.workload_pods import WorkloadAnswer, explain_new_pods, explain_workload


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing. What is asked about is a reference
    (`Pod/team-a/train-0`, `DeviceClass/gpu.example.com`) to an object that is there, a file, or a mapping.
    """

    allocate = allocate
    audit = audit
    explain = explain
    explain_gang = explain_gang
    fit = find_fit
    headroom = find_headroom
    nodes_without_devices = find_nodes_without_devices
    status = find_status
    usage = find_usage
    waiting = find_waiting

    def lint(self, source: Source | None = None) -> LintReport:
        """Return what is wrong with the selectors of its classes, claims and templates, or of those of a source.

        The source lies over the objects of the cluster, and only its own are judged.
        """
        if source is not None:
            return lint(source, self)
        return lint_objects(self, find_lintable(self), LINT.optional)

    def explain_workload(self, subject: Subject, effort: Effort | None = EFFORT) -> WorkloadAnswer:
        """Return what becomes of the pods of a workload: `deployment/NAMESPACE/NAME`, or objects of a file.

        Pods that exist are explained, equal ones once, and those that it would make are placed. Raises QuestionError.
        """
        if isinstance(subject, str) and (known := find_named(subject.partition("/")[0])) is not None:
            namespace, _, name = subject.partition("/")[2].rpartition("/")
            return explain_workload(self, known, namespace or DEFAULT_NAMESPACE, name, effort)
        return explain_new_pods(self, subject, effort)

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
