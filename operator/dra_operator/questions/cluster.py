"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from dra_operator.pods.smallest_change import Effort
from dra_operator.questions.copies import Subject
from dra_operator.questions.explain import EFFORT, ExplainAnswer, explain
from dra_operator.questions.fit import FitAnswer, find_fit
from dra_operator.questions.headroom import HeadroomAnswer, find_headroom
from dra_operator.questions.lint import LintReport, find_lintable, lint, lint_objects
from dra_operator.questions.state import ClusterState, Source


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing. What is asked about is a reference
    (`Pod/team-a/train-0`, `DeviceClass/gpu.example.com`) to an object that is there, a file, or a mapping.
    """

    def lint(self, source: Source | None = None) -> LintReport:
        """Return what is wrong with the selectors of its classes, claims and templates, or of those of a source.

        The source lies over the objects of the cluster, and only its own are judged.
        """
        return lint_objects(self, find_lintable(self)) if source is None else lint(source, self)

    def explain(self, subject: Subject, effort: Effort | None = EFFORT) -> ExplainAnswer:
        """Return why a pod or a claim waits, request by request, and the smallest changes with which it would not.

        Of a template or a class, or a pod that is not in the cluster, it is what a copy would wait for. `effort` is
        what it may cost to find changes; None finds none. Raises QuestionError.
        """
        return explain(self, subject, effort)

    def fit(self, subject: Subject, copies: int = 1) -> FitAnswer:
        """Return how many of some copies of a Pod, a workload, a claim, a template or a class fit, first-fit.

        Objects that stand beside it lie over those of the cluster. Raises QuestionError.
        """
        return find_fit(self, subject, copies)

    def headroom(self, subject: Subject, by: str = "") -> HeadroomAnswer:
        """Return how many more copies of a template, or devices of a class, there is room for.

        Also the device with the most left, by the capacity `by` or the first, and the free devices that are stranded.
        Raises QuestionError.
        """
        return find_headroom(self, subject, by)
