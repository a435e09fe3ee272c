"""`python -m tuned_operator run --NAME=VALUE ...`: the operator with other times and limits than the product has.

What names a field of `Tuning` is taken, as in `--lease-seconds=3`; all else is for `dra-operator`.
"""

import sys
from dataclasses import fields
from functools import partial

from dra_operator.cli import main
from dra_operator.controller import kopf_app
from dra_operator.controller.settings import Tuning

TYPES = {f"--{field.name.replace('_', '-')}": (field.name, field.type) for field in fields(Tuning)}


def take_tuning(arguments: list[str]) -> tuple[Tuning, list[str]]:
    """Return the tuning that some arguments name, and the arguments that are left."""
    values, rest = {}, []
    for argument in arguments:
        flag, _, text = argument.partition("=")
        if flag in TYPES:
            name, type_ = TYPES[flag]
            values[name] = type_(text)
        else:
            rest.append(argument)
    return Tuning(**values), rest


if __name__ == "__main__":
    tuning, sys.argv[1:] = take_tuning(sys.argv[1:])
    kopf_app.serve = partial(kopf_app.serve, tuning=tuning)
    main()
