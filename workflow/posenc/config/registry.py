"""Functions that ``params.yaml`` names: one function, and it can be used, checked and documented.

A registered function's keyword-only parameters are the keys of its section; their types are what
pydantic checks. Nothing else has to be written for a new one.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

from pydantic import create_model

from posenc.config.base import Section

F = TypeVar("F", bound=Callable[..., Any])


class Registry(Generic[F]):
    """Functions by name, each with a section of its keyword-only parameters.

    Examples
    --------
    >>> shapes = Registry("shape")
    >>> @shapes
    ... def square(x, *, side: float = 1.0):
    ...     "A square."
    ...     return side * x
    >>> shapes.call(shapes.sections["square"](kind="square", side=2.0), 3)
    6.0
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.functions: dict[str, F] = {}
        self.sections: dict[str, type[Section]] = {}

    def __call__(self, function: F) -> F:
        """Register a function under its own name."""
        name = function.__name__
        if name in self.functions:
            raise ValueError(f"there are two functions for the {self.what} {name!r}")
        hints = typing.get_type_hints(function, include_extras=True)
        fields: Mapping[str, Any] = {
            "kind": (Literal[name], ...),
            **{
                key: (
                    hints.get(key, Any),
                    ... if parameter.default is parameter.empty else parameter.default,
                )
                for key, parameter in inspect.signature(function).parameters.items()
                if parameter.kind is parameter.KEYWORD_ONLY
            },
        }  # type and default of each
        self.functions[name] = function
        self.sections[name] = create_model(
            "".join(part.capitalize() for part in [*name.split("_"), self.what]),
            __base__=Section,
            __doc__=(function.__doc__ or "").strip().split("\n")[0],
            **fields,
        )
        return function

    def plain(self) -> list[str]:
        """Names of the functions that need no parameters."""
        return [
            name
            for name, section in self.sections.items()
            if not any(
                field.is_required() for key, field in section.model_fields.items() if key != "kind"
            )
        ]

    def call(self, section: Section | str, *arguments: Any) -> Any:
        """Call the function that a section (or a plain name) names, with its parameters."""
        if isinstance(section, str):
            return self.functions[section](*arguments)
        parameters = {name: getattr(section, name) for name in type(section).model_fields}
        return self.functions[parameters.pop("kind")](*arguments, **parameters)
