"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.questions.audit import audit
from dra_operator.questions.errors import QuestionError
from dra_operator.questions.findings import AuditReport
from dra_operator.questions.holders import HolderReport, Subject, find_holders
from dra_operator.questions.impact import (
    ClassChange,
    ClusterChange,
    DriverRemoval,
    ImpactReport,
    NodeDrain,
    RuleChange,
    find_impact,
)
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import Grouping, UsageReport, find_usage


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing.
    """

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
    ) -> HolderReport:
        """Return which claims hold devices, for which pods and since when; what is given restricts, all of it together.

        With `admin_access` results of admin access are listed as well, which hold nothing. Raises UnknownObjectError.
        """
        subject = Subject(driver, pool, device, node, device_class, namespace, admin_access)
        return find_holders(self, subject)

    def usage(self, grouping: Grouping | str = Grouping.NODE, *, by: str = "") -> UsageReport:
        """Return how many devices are used and free, by `node`, `pool`, `class` or `namespace`.

        The largest device is so by the capacity `by`, or by the first one by name.
        """
        return find_usage(self, Grouping(grouping), by)

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
        changes: list[ClusterChange] = []
        if rule is not None:
            changes.append(RuleChange(rule))
        if device_class is not None:
            changes.append(ClassChange(device_class))
        if drained_node:
            changes.append(NodeDrain(drained_node))
        if removed_driver:
            changes.append(DriverRemoval(removed_driver))
        if len(changes) != 1:
            raise QuestionError(
                f"{len(changes)} changes are given: give one of rule, device_class, drained_node and removed_driver"
            )
        return find_impact(self, changes[0])
