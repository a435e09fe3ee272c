"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from dra_operator.questions.copies import Subject
from dra_operator.questions.fit import FitAnswer, find_fit
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

    def fit(self, subject: Subject, copies: int = 1) -> FitAnswer:
        """Return how many of some copies of a Pod, a workload, a claim, a template or a class fit, first-fit.

        Objects that stand beside it lie over those of the cluster. Raises QuestionError.
        """
        return find_fit(self, subject, copies)
