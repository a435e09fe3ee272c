"""Scenarios and expressions from seeds: wide, small and strange rather than typical.

Each question is made from its seed and number alone, so that any one of them can be made again. A scenario first
draws how often each feature occurs in it (`style`), so that some are crowded with one thing and others free of it.
"""

from conformance.generate.cases import make_case
from conformance.generate.gates import with_default_gates
from conformance.generate.scenario import make_scenario
from conformance.generate.spellings import respelled

__all__ = ["make_case", "make_scenario", "respelled", "with_default_gates"]
