"""The JSON Schema of jobs.yaml, for editors; made from the models, so that it cannot lag behind."""

from typing import Any, Final

from cron.jobs_models import ConfigModel

SCHEMA_FILE: Final = "jobs.schema.json"

_SECTIONS: Final = frozenset({"accounts", "targets", "agents", "defaults", "jobs"})


def config_schema() -> dict[str, Any]:
    """Return the schema as JSON-ready values. It is lenient where the loader is (a number is a text, too)."""
    schema = ConfigModel.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    for definition in (schema, *definitions.values()):
        for name, shape in definition.get("properties", {}).items():
            definition["properties"][name] = _plain(shape, may_be_empty=definition is schema and name in _SECTIONS)
        definition["title"] = definition["title"].removesuffix("Model")
    _allow_short(schema["properties"]["targets"], {"type": ["string", "number"]})
    for name in ("JobModel", "DefaultsModel"):
        retry = definitions[name]["properties"]["retry"]
        definitions[name]["properties"]["retry"] = {
            "description": retry.pop("description"),
            "anyOf": [retry, {"type": "integer", "minimum": 1}],
        }
    definitions["JobModel"]["oneOf"] = [{"required": [word]} for word in ("command", "prompt", "text")]
    schema["patternProperties"] = {"^x-": {}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "jobs.yaml"} | {
        key: value for key, value in schema.items() if key != "title"
    }


def _plain(shape: dict[str, Any], *, may_be_empty: bool) -> dict[str, Any]:
    """Undo what pydantic says about absent fields: a key without a value is a mistake in the file."""
    shape = {key: value for key, value in shape.items() if key not in ("default", "title")}
    options = [option for option in shape.get("anyOf", []) if option != {"type": "null"}]
    if not options or may_be_empty:
        return shape
    rest = {key: value for key, value in shape.items() if key != "anyOf"}
    return {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}


def _allow_short(section: dict[str, Any], short: dict[str, Any]) -> None:
    for option in section["anyOf"]:
        if "additionalProperties" in option:
            option["additionalProperties"] = {"anyOf": [short, option["additionalProperties"]]}
