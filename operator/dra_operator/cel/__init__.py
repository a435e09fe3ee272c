"""The CEL of DRA: expressions over one device, compiled to Python functions.

`prepare_device` makes a device ready once, `compile_selector` an expression; then `selector.match(device)`
answers. What goes wrong is a `CelError`, and nothing else.

An expression goes through the stages in this order, each a module with the helpers named behind it:

1. `parser`: text to syntax tree (`nodes`), by `lexer`, `grammar` and `tables`, `builder`, `literals`, `macros`
2. `checker`: a type for every node (`types`, `unify`, `messages`), by the `declarations` of an `environment`
3. `validators`: what is wrong although all types fit
4. `cost`: the most it can cost (`sizes`, `trails`, `call_estimates`), for those who ask; `simple` sees at once that it
   is little
5. `planner`: the steps of its evaluation (`plan`), with constants folded (`folding`) and calls resolved (`dispatch`)
6. `codegen`: a Python function that knows neither costs nor errors (`trees`, `assembly`, `folds`, `certainty`, `fast`);
   `counted`: a function that counts costs (`counted_lines`, `counted_folds`, `counted_help`, `call_costs`);
   `interpreter`: the exact and slow one (`meter`, `qualify`); `work` bounds the time of the last two

`program` takes it through them, and `paths` tells what an expression reads. What differs from a text that has been
through them in nothing but values is filled into its function (`templates`). `values`, `operators` and `library` are
what all evaluation is made of, `errors` has the one exception; `device` is what it is about; `diagnostics`, `wording`
and `slips` are for people; `cases` and `encoding` are for recorded answers.
"""

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
