"""One document of YAML or JSON to plain JSON values (dict, list, str, int, float, bool, None).

Reads as Kubernetes' own tools do: keys become texts, dates stay texts, a key may not stand twice, and anchors may
neither contain themselves nor blow up. Raises DocumentError and nothing else.
"""

import json
import math
from typing import Any, Final

import yaml

MAX_VALUES: Final = 200_000
"""Values in one document after its anchors are written out; more is refused."""
MAX_DEPTH: Final = 64
_MERGE: Final = "tag:yaml.org,2002:merge"


class DocumentError(ValueError):
    """A document that can't be read. Line and column count from 1 in the whole text, 0 where they are not known."""

    def __init__(self, problem: str, remedy: str, line: int = 0, column: int = 0) -> None:
        """Keep the place apart from the words."""
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy
        self.line = line
        self.column = column


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as Kubernetes reads it: no dates, no key twice."""

    merged = 0  # keys that were merged so far: merges of merges cost time even where they add nothing

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 (PyYAML's stubs call it a dict)
        """Refuse a key that stands twice, as kubectl does; PyYAML would keep the last."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                problem = f"the key {key.value!r} stands twice in one object"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add((key.tag, key.value))
        return node

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: ANN401, N803 (PyYAML's names)
        """Refuse what is nested too deeply when it is met: PyYAML first reads on for a second, and then recurses."""
        if self.flow_level > MAX_DEPTH:
            raise DocumentError("is nested too deeply", f"nest at most {MAX_DEPTH} levels")
        super().fetch_flow_collection_start(TokenClass)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Write merges (`<<`) out: own keys win, then the earlier source. PyYAML's own loses overrides of merges."""
        merges = [value for key, value in node.value if key.tag == _MERGE]
        node.value = [(key, value) for key, value in node.value if key.tag != _MERGE]  # first, lest one merges itself
        merged: dict[object, tuple[yaml.Node, yaml.Node]] = {}
        for source in (item for value in merges for item in _sources(value)):
            self.flatten_mapping(source)
            self.merged += len(source.value)
            if self.merged > MAX_VALUES:
                problem = f"more than {MAX_VALUES} keys are merged"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            for pair in source.value:
                merged.setdefault(_identity(pair[0]), pair)
        node.value = list({**merged, **{_identity(pair[0]): pair for pair in node.value}}.values())


def _sources(value: yaml.Node) -> list[yaml.MappingNode]:
    found = value.value if isinstance(value, yaml.SequenceNode) else [value]
    for item in found:
        if not isinstance(item, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "only maps can be merged with '<<'", item.start_mark)
    return list(found)


def _identity(key: yaml.Node) -> object:
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_document(text: str, first_line: int = 0) -> object:
    """Return the value of one document that begins `first_line` lines into its text. Raises DocumentError."""
    try:
        return _plain(_parse(text), [0], 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "is no YAML"
        line, column = (first_line + mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise DocumentError(
            f"is no YAML: {problem}", "correct it there, often by indentation or quotes", line, column
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"can't be read: {error}".splitlines()[0], "write plain YAML or JSON") from error
    except RecursionError as error:
        raise DocumentError("is nested too deeply", f"nest at most {MAX_DEPTH} levels") from error


def _parse(text: str) -> object:
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        try:
            return json.loads(text.lstrip("\ufeff"), object_pairs_hook=_unique)
        except json.JSONDecodeError:
            pass  # YAML's flow style begins like JSON; if it is neither, YAML's reader names the place
    return yaml.load(text, Loader=_Loader)  # noqa: S506 (derived from SafeLoader)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DocumentError(f"the key {twice!r} stands twice in one object", "keep one of them")
    return result


def _plain(value: object, count: list[int], depth: int) -> object:
    """Write anchors out, turn keys into texts, refuse what JSON does not hold."""
    count[0] += 1
    if count[0] > MAX_VALUES:
        raise DocumentError("is too large once its anchors are written out", f"keep it below {MAX_VALUES} values")
    if depth > MAX_DEPTH:
        raise DocumentError("is nested too deeply, or an anchor contains itself", f"nest at most {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {_key(key): _plain(item, count, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, count, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise DocumentError(f"holds {value}, which is no number of JSON", "write a number, or a text in quotes")
    if value is None or isinstance(value, str | int | float):
        return value
    raise DocumentError(
        f"holds a value of the YAML type {type(value).__name__}", "write texts, numbers, lists and maps"
    )


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    raise DocumentError("has a key that is a list or map", "write keys as texts")
