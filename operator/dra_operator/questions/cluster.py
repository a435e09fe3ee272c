"""The questions that can be asked about a cluster, in one place: each method calls the module that answers it.

Source: docs/library.md.
"""

from dra_operator.questions.state import ClusterState


class Cluster(ClusterState):
    """A cluster in memory, to be asked: `Cluster.load` makes it of objects or files.

    Answers are about the state as it was loaded; asking changes nothing.
    """
