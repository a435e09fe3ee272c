"""The CEL of DRA: expressions over one device, compiled to Python functions."""

from typing import Any

from dra_operator.cel.errors import CelError

_HOMES = {
    "Environment": "environment",
    "STORED_137": "environment",
    "PreparedDevice": "device",
    "prepare_device": "device",
    "Selector": "program",
    "compile_selector": "program",
    "DerivedAttributeProgram": "program",
    "compile_derived_attribute": "program",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"dra_operator.cel.{_HOMES[name]}"), name)


__all__ = ["CelError", *_HOMES]  # noqa: PLE0604
