"""The CEL of DRA: expressions over one device, compiled to Python functions.

`prepare_device` makes a device ready once, `compile_selector` an expression; then `selector.match(device)`
answers. What goes wrong is a `CelError`, and nothing else.
"""

from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.environment import STORED_137, Environment
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import (
    DerivedAttributeProgram,
    Program,
    Selector,
    compile_derived_attribute,
    compile_program,
    compile_selector,
)

__all__ = [
    "STORED_137",
    "CelError",
    "DerivedAttributeProgram",
    "Environment",
    "PreparedDevice",
    "Program",
    "Selector",
    "compile_derived_attribute",
    "compile_program",
    "compile_selector",
    "prepare_device",
]
