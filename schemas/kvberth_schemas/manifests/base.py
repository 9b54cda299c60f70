"""What all models of users' objects share: strict types, Kubernetes' names, our own words for what is wrong.

The models are the schema: they say what is refused at the door. They decide nothing else.
"""

import re
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from kvberth_schemas.quantity import QuantityError, check_amount

FAULT: Final = "kvberth"
"""Type of the pydantic errors that carry our own words: context {problem, remedy}."""

Item = TypeVar("Item")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ENV_NAME = re.compile(r"[ -<>-~]+")  # as Kubernetes has it: printable ASCII but '='
_KEY_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def fault(problem: str, remedy: str) -> PydanticCustomError:
    """Return the error that carries one of our sentences through pydantic."""
    return PydanticCustomError(FAULT, "{problem}; {remedy}", {"problem": problem, "remedy": remedy})


class Tolerant(BaseModel):
    """An object of Kubernetes' own: fields that we do not read are let through."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class Known(Tolerant):
    """An object of which every field is known; others are kept apart (`model_extra`), so that they can be named."""

    model_config = ConfigDict(extra="allow")


def is_label_key(key: str) -> bool:
    """Tell whether a text may be the key of a label or an annotation: `[domain/]name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _KEY_NAME.fullmatch(name) is not None


def _not_empty(items: tuple[Item, ...]) -> tuple[Item, ...]:
    if not items:
        raise fault("is empty", "write at least one entry")
    return items


def _dns_label(name: str) -> str:
    if len(name) > 63:
        raise fault(f"has {len(name)} characters", "write at most 63")
    if not _LABEL.fullmatch(name):
        remedy = "use lower-case letters, digits and '-', beginning and ending with a letter or digit"
        raise fault(f"{name[:70]!r} is no DNS label", remedy)
    return name


def _dns_subdomain(name: str) -> str:
    if len(name) > 253:
        raise fault(f"has {len(name)} characters", "write at most 253")
    if not _SUBDOMAIN.fullmatch(name):
        remedy = "use lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
        raise fault(f"{name[:70]!r} is no DNS name", remedy)
    return name


def _label_key(key: str) -> str:
    if not is_label_key(key):
        raise fault(f"{key[:70]!r} can't be the key of a label", "write it as nodes carry it: nvidia.com/gpu.product")
    return key


def _label_value(value: str) -> str:
    if value and not (len(value) <= 63 and _KEY_NAME.fullmatch(value)):
        remedy = "use up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
        raise fault(f"{value[:70]!r} can't be the value of a label", remedy)
    return value


def _env_name(name: str) -> str:
    if not name:
        raise fault("is empty", "give the variable a name")
    if not _ENV_NAME.fullmatch(name):
        raise fault(f"{name[:40]!r} can't name a variable", "use printable ASCII without '=', such as MODEL_PATH")
    return name


def _path(path: str) -> str:
    if not path.startswith("/"):
        raise fault(f"{path[:70]!r} is no absolute path", "begin it with '/'")
    return _no_way_up(path)


def _no_way_up(path: str) -> str:
    if ".." in path.split("/"):
        raise fault(f"{path[:70]!r} holds '..'", "write the path that is meant")
    return path


def _sub_path(path: str) -> str:
    if path.startswith("/"):
        raise fault(f"{path[:70]!r} is an absolute path", "write a path below the volume, without '/' at its beginning")
    return _no_way_up(path)


def _quantity(value: object) -> str:
    try:
        check_amount(value)
    except QuantityError as error:
        raise fault(error.problem, error.remedy) from error
    return str(value)


# What the validators above say to a schema of Kubernetes; its CEL rules carry our own words.
_DNS_LABEL_SCHEMA: Final = {"maxLength": 63, "pattern": f"^{_LABEL.pattern}$"}
_LABEL_KEY_SCHEMA: Final = {"maxLength": 317, "pattern": f"^({_SUBDOMAIN.pattern}/)?{_KEY_NAME.pattern}$"}
_ENV_NAME_SCHEMA: Final = {"minLength": 1, "maxLength": 1024, "pattern": f"^{_ENV_NAME.pattern}$"}
_LABEL_VALUE_SCHEMA: Final = {"maxLength": 63, "pattern": f"^({_KEY_NAME.pattern})?$"}


def _quantity_schema(*, may_be_empty: bool) -> dict[str, Any]:
    empty = "self == '' || " if may_be_empty else ""
    amount = "quantity(self).compareTo(quantity('0')) >= 0"
    below = f"quantity(self).isLessThan(quantity('{2**63 - 1}'))"
    return {
        "x-kubernetes-int-or-string": True,
        "maxLength": 64,
        "x-kubernetes-validations": [
            {
                "rule": f"type(self) != string || {empty}isQuantity(self)",
                "message": "is no quantity; write a number with a unit, such as 72Gi (2^30) or 72G (10^9) of memory, "
                "or 500m of cpu",
            },
            {
                "rule": f"type(self) == string ? !isQuantity(self) || {amount} : self >= 0",
                "message": "is negative; write an amount of 0 or more",
            },
            {
                "rule": f"type(self) != string || !isQuantity(self) || {below}",
                "message": "is more than 2^63-1, the largest amount that Kubernetes can hold; "
                "write what a node can really give, such as 72Gi of memory, 32 cores or 8 GPUs",
            },
        ],
    }


DnsLabel = Annotated[str, AfterValidator(_dns_label), Field(json_schema_extra=_DNS_LABEL_SCHEMA)]
DnsSubdomain = Annotated[str, AfterValidator(_dns_subdomain)]
AnnotationKey = Annotated[str, AfterValidator(lambda key: _label_key(key.lower()) and key)]
LabelKey = Annotated[str, AfterValidator(_label_key), Field(json_schema_extra=_LABEL_KEY_SCHEMA)]
LabelValue = Annotated[str, AfterValidator(_label_value), Field(json_schema_extra=_LABEL_VALUE_SCHEMA)]
Labels = dict[LabelKey, LabelValue]
Text = Annotated[str, Field(min_length=1)]
EnvName = Annotated[str, AfterValidator(_env_name), Field(json_schema_extra=_ENV_NAME_SCHEMA)]
AbsolutePath = Annotated[str, Field(min_length=1), AfterValidator(_path)]
SubPath = Annotated[str, AfterValidator(_sub_path)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema(_quantity_schema(may_be_empty=False))]
"""The text of a quantity that is neither negative nor above 2^63-1; parse it with `kvberth_schemas.quantity`."""
QuantityOrEmpty = Annotated[
    str,
    BeforeValidator(lambda value: value if value == "" else _quantity(value)),
    WithJsonSchema(_quantity_schema(may_be_empty=True)),
]
"""The same where AIBrix's own default is the empty text."""
Resources = dict[str, Quantity]
Json = dict[str, Any]

Seq = Annotated[tuple[Item, ...], Strict(False)]
"""A list, kept as a tuple (not strict, since JSON and YAML have lists only)."""
NotEmpty = Annotated[tuple[Item, ...], Strict(False), AfterValidator(_not_empty)]
"""The same with at least one entry; said only of a list whose entries are right."""
