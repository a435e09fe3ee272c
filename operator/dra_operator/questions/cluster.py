"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from dra_operator.questions.lint import LintReport, find_lintable, lint, lint_objects
from dra_operator.questions.state import ClusterState, Source


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing.
    """

    def lint(self, source: Source | None = None) -> LintReport:
        """Return what is wrong with the selectors of its classes, claims and templates, or of those of a source.

        The source lies over the objects of the cluster, and only its own are judged.
        """
        return lint_objects(self, find_lintable(self)) if source is None else lint(source, self)
