"""PATCH of a job: RFC 7396 merged into the definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from httpapi.fields import unknown_names
from httpapi.render import job_definition
from node.interface import FieldError, Invalid, Job, JobDraft


def merged(job: Job, patch: Any) -> dict[str, Any]:
    """The body of a PUT that the patch makes of the job. A null takes a field back to its default. Raises Invalid for
    what is no field of a definition."""
    if not isinstance(patch, dict):
        raise Invalid("The body must be a JSON object.", [FieldError(path="", message="must be an object")])
    unknown = unknown_names(patch, [name for name in JobDraft.__struct_fields__ if name != "idempotency_key"], "")
    if unknown:
        raise Invalid(errors=unknown)
    # As it is kept: what is shown has a mask in the place of a secret.
    definition = job_definition(job) | {"target": msgspec.to_builtins(job.target)}
    target = patch.get("target")
    if isinstance(target, dict) and target.get("type", definition["target"]["type"]) != definition["target"]["type"]:
        # Fields of another kind of target mean nothing for this one.
        definition["target"] = {}
    return merge(definition, patch)


def merge(value: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396, section 2."""
    result = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, dict):
            result[name] = merge(result.get(name), change)
        else:
            result[name] = change
    return result
