"""The CEL of DRA: expressions over one device, with the answers and costs of Kubernetes' own evaluator.

`prepare_device` makes a device ready once, `compile_selector` an expression; then `selector.match(device)`
answers. What goes wrong is a `CelError`, and nothing else.

An expression goes through these stages in this order:

1. `syntax`: text to syntax tree
2. `types`: a type for every node, by what its environment declares, and validation
3. `cost`: the most it can cost, by the prices of what it is made of
4. `run`: the steps of its evaluation, as functions: plain for what is cheap, metered for all else and wherever the
   plain ones fail

`program` takes it through them. `values` and `library` are what all
evaluation is made of, `errors` has the one exception; `device` is what it is about; `advice` is for people.
"""

from typing import TYPE_CHECKING

from dra_operator._lazy import lazy_names

if TYPE_CHECKING:
    from dra_operator.cel.device import PreparedDevice, prepare_device
    from dra_operator.cel.errors import CelError
    from dra_operator.cel.program import (
        DerivedAttributeProgram,
        Program,
        Selector,
        compile_derived_attribute,
        compile_program,
        compile_selector,
    )
    from dra_operator.cel.types.environment import STORED, Environment
else:
    # Devices are prepared also where no expression is ever compiled.
    __getattr__ = lazy_names(
        __name__,
        {
            "device": ("PreparedDevice", "prepare_device"),
            "types.environment": ("STORED", "Environment"),
            "errors": ("CelError",),
            "program": (
                "DerivedAttributeProgram",
                "Program",
                "Selector",
                "compile_derived_attribute",
                "compile_program",
                "compile_selector",
            ),
        },
    )

__all__ = [
    "STORED",
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
