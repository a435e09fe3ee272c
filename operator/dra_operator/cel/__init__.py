"""The CEL of DRA: expressions over one device, with the answers and costs of Kubernetes' own evaluator.

`prepare_device` makes a device ready once, `compile_selector` an expression; then `selector.match(device)`
answers. What goes wrong is a `CelError`, and nothing else.

An expression goes through these stages in this order:

1. `syntax`: text to syntax tree
2. `checker`: a type for every node (`types`, `unify`, `messages`), by the `declarations` of the `library`, as an
   `environment` has them
3. `validators`: what is wrong although all types fit
4. `estimate`: the most it can cost, by the `costs` of what it is made of
5. `run`: the steps of its evaluation, with constants folded and calls resolved (`dispatch`), as functions: plain for
   what is cheap, metered for all else and wherever the plain ones fail

`program` takes it through them, and `paths` tells what an expression reads. `values`, `operators`, `qualify` and
`library` are what all evaluation is made of, `errors` has the one exception; `device` is what it is about; `advice` is
for people.
"""

from typing import TYPE_CHECKING

from dra_operator._lazy import lazy_names

if TYPE_CHECKING:
    from dra_operator.cel.device import PreparedDevice, prepare_device
    from dra_operator.cel.environment import STORED, Environment
    from dra_operator.cel.errors import CelError
    from dra_operator.cel.program import (
        DerivedAttributeProgram,
        Program,
        Selector,
        compile_derived_attribute,
        compile_program,
        compile_selector,
    )
else:
    # Devices are prepared also where no expression is ever compiled.
    __getattr__ = lazy_names(
        __name__,
        {
            "device": ("PreparedDevice", "prepare_device"),
            "environment": ("STORED", "Environment"),
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
