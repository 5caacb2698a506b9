"""The JSON Schema of ``params.yaml``."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from posenc.study.params import Params


@functools.cache  # a base is that of many sections, and finding its source parses a whole module
def _own_docstrings(section: type) -> dict[str, str]:
    """The texts below the fields of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(section)))
    except (OSError, TypeError):  # put together by pydantic, or built into Python
        return {}
    found = {}
    for field, text in itertools.pairwise(tree.body[0].body):  # type: ignore[attr-defined]
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                found[name] = inspect.cleandoc(said)
    return found


def field_docstrings(section: type) -> dict[str, str]:
    """The texts below the fields of a class, with those that it inherits."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        found |= _own_docstrings(base)
    return found


class _Described(GenerateJsonSchema):
    """Reads fields' docstrings from the source here alone: each start would pay 0.2 s for them."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        """Add to a section's schema what its source says of its fields."""
        made = super().model_schema(schema)
        for name, text in field_docstrings(schema["cls"]).items():
            if name in made.get("properties", {}):
                made["properties"][name]["description"] = text
        return made


def json_schema() -> dict[str, Any]:
    """The JSON Schema of ``params.yaml``, which gives completion and checks in an editor."""
    schema = Params.model_json_schema(schema_generator=_Described)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "posenc params.yaml",
        **{key: value for key, value in schema.items() if key != "title"},
    }
