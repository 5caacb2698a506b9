"""The JSON Schemas of ``params.yaml`` and of the file of a study."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from posenc.config.yaml_file import YamlFile
from posenc.study.layers import BUILT_IN, DEFINE, DEPTHS, GRID, LIKE, SAID
from posenc.study.params import Params


@functools.cache  # many sections share a base, and finding its source parses a whole module
def _own_docstrings(section: type) -> dict[str, str]:
    """The texts below the fields of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(section)))
    except (OSError, TypeError):  # put together by pydantic, or built into Python
        return {}
    docstrings = {}
    for field, text in itertools.pairwise(tree.body[0].body):  # type: ignore[attr-defined]
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                docstrings[name] = inspect.cleandoc(said)
    return docstrings


def field_docstrings(section: type) -> dict[str, str]:
    """The texts below the fields of a class, with those that it inherits."""
    docstrings: dict[str, str] = {}
    for base in reversed(section.__mro__):
        docstrings |= _own_docstrings(base)
    return docstrings


class _Described(GenerateJsonSchema):
    """Reads fields' docstrings only here: elsewhere, they would add 0.2 s to each start."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Add to a section's schema the docstrings of its fields."""
        section_schema = super().model_schema(schema)
        for name, text in field_docstrings(schema["cls"]).items():
            if name in section_schema.get("properties", {}):
                section_schema["properties"][name]["description"] = text
        return section_schema


FORM = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> JsonSchemaValue:
    """The JSON Schema of ``params.yaml``, which gives completion and checks in an editor.

    An entry may change another one, so none of its keys is required: `posenc check` says what is
    missing. ``StudyFile`` is the schema of a study's file.
    """
    whole = _partial(Params.model_json_schema(schema_generator=_Described))
    definitions, properties = whole["$defs"], whole["properties"]
    definitions["ConditionName"] = _condition_names()
    for section in DEPTHS:
        _add_keys(section, properties[section], definitions)
    for name in ("Study", "OfOneModel"):
        for key in ("conditions", "evaluated"):
            if key in definitions[name]["properties"]:
                definitions[name]["properties"][key]["items"] = {"$ref": "#/$defs/ConditionName"}
    study = definitions["Study"]
    defined = {name: properties[name] for name in DEPTHS if name != "studies"}
    definitions["StudyFile"] = {
        **study,
        "properties": {
            **{name: part for name, part in study["properties"].items() if name != "name"},
            DEFINE: {
                "type": "object",
                "additionalProperties": False,
                "properties": defined,
                "description": "Entries that come with the study.",
            },
        },
    }
    return {
        "$schema": FORM,
        "title": "posenc params.yaml",
        **{key: value for key, value in whole.items() if key != "title"},
        "required": ["authors", "datasets", "models", "study"],
    }


def study_schema() -> JsonSchemaValue:
    """The JSON Schema of a study's file, a part of that of ``params.yaml``."""
    return {
        "$schema": FORM,
        "title": "posenc study",
        "$ref": "params.schema.json#/$defs/StudyFile",
    }


def _partial(node: Any) -> Any:
    """A schema without required keys, and without alternatives that these tell apart."""
    if isinstance(node, list):
        return [_partial(part) for part in node]
    if not isinstance(node, dict):
        return node
    schema = {
        "anyOf" if key == "oneOf" else key: _partial(part)
        for key, part in node.items()
        # A property may also be called `required`: that is a mapping.
        if not (key == "required" and isinstance(part, list)) and key != "discriminator"
    }
    return schema


def _add_keys(
    section: str, shelf: JsonSchemaValue, definitions: dict[str, JsonSchemaValue]
) -> None:
    """Add the keys that an entry can have beside its own."""
    shelves = [shelf]
    if "$ref" in shelf:
        shelves = list(definitions[shelf["$ref"].rsplit("/", 1)[1]]["properties"].values())
    keys: dict[str, JsonSchemaValue] = {
        LIKE: {"type": "string", "description": "An entry that it is like."}
    }
    if section == "models":
        keys[GRID] = {
            "type": "object",
            "additionalProperties": {"type": "array"},
            "description": "Keys of source with lists: a model for each combination of values.",
        }
    said = {"shown_as": "As figures and tables call it: at most 28 characters.",
            "about": "What it is, in a sentence."}  # fmt: skip
    for name, sections in SAID.items():
        if section in sections:
            keys[name] = {"type": "string", "description": said[name]}
    for mapping in shelves:
        (entry,) = mapping["patternProperties"].values()
        for part in entry.get("anyOf", [entry]):
            definitions[part["$ref"].rsplit("/", 1)[1]]["properties"].update(keys)


def _condition_names() -> JsonSchemaValue:
    """Names of the catalogue, each with its sentence, and any other name."""
    entries = YamlFile(BUILT_IN).value["conditions"]
    known = [{"const": name, "description": entry["about"]} for name, entry in entries.items()]
    return {"anyOf": [*known, {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}]}
