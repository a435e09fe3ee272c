"""The CEL of DRA: expressions over one device, compiled to Python functions.

`prepare_device` makes a device ready once, `compile_selector` an expression; then `selector.match(device)`
answers. What goes wrong is a `CelError`, and nothing else.

An expression goes through these stages in this order:

1. `syntax`: text to syntax tree
2. `checker`: a type for every node (`types`, `unify`, `messages`), by the `declarations` of an `environment`
3. `validators`: what is wrong although all types fit
4. `costs`: the most it can cost, for those who ask
5. `planner`: the steps of its evaluation (`interpretable`), with constants folded (`folding`) and calls resolved
   (`dispatch`)
6. `compiler`: a Python function that knows neither costs nor errors, for what is cheap; `interpreter`: the exact and
   slow one (`qualify`), for all else

`program` takes it through them, and `paths` tells what an expression reads. What differs from a text that has been
through them in nothing but values is filled into its function (`templates`). `values`, `operators` and `library` are
what all evaluation is made of, `errors` has the one exception; `device` is what it is about; `advice` is for people.
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
