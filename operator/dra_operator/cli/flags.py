"""Settings as flags: one flag for each setting, made from its declaration.

A flag takes its value as text, so that a value which is not allowed is reported by the settings themselves,
in the same words wherever it came from.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from dra_operator.cli.lines import refuse
from dra_operator.controller.settings import LoadedSettings, Settings, SettingsError, flag, load


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each setting.

    `command` takes `config` (the configuration file, or None) and `flags` (what was given, by the name of the
    setting) and whatever parameters of its own it declares.
    """
    own = [
        parameter
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in ("config", "flags")
    ]
    options = [_option("config", "Configuration file, YAML.", "FILE")]
    options += [
        _option(name, f"{field.description} Default: {field.default or 'empty'}.", _metavar(name))
        for name, field in Settings.model_fields.items()
    ]

    def run(**given: Any) -> None:
        config = given.pop("config")
        flags = {name: given.pop(name) for name in Settings.model_fields}
        command(
            config=config, flags={name: value for name, value in flags.items() if value is not None}, **given
        )

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    run.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined] # read by Typer
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
    return run


def load_or_exit(flags: Mapping[str, str], config: str | None) -> LoadedSettings:
    """Return the settings; print what is wrong with them and exit with 2 if they cannot be used."""
    try:
        return load(flags, config)
    except SettingsError as error:
        refuse(*error.problems)


def _metavar(name: str) -> str:
    """Return a short word for what a setting may be: its choices, or NUMBER, or TEXT."""
    annotation = Settings.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    return "NUMBER" if annotation in (int, float) else "TEXT"


def _option(name: str, text: str, metavar: str) -> inspect.Parameter:
    option = typer.Option(flag(name), help=text, metavar=metavar)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )
