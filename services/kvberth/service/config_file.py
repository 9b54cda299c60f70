"""The YAML file named by `KVBERTH_CONFIG`: read as one mapping, or refused with one sentence."""

import os
from pathlib import Path
from typing import Any

import yaml

from kvberth.service.errors import SettingsError

CONFIG_VARIABLE = "KVBERTH_CONFIG"


def read_config_file() -> dict[str, Any]:
    """The keys of the settings file; empty when no file is named. Raises `SettingsError`."""
    name = os.environ.get(CONFIG_VARIABLE)
    if not name:
        return {}
    try:
        content = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            [f"{CONFIG_VARIABLE} names {name}, which can't be read ({error.strerror}); name a YAML file or unset it."]
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError([f"{name} (from {CONFIG_VARIABLE}) is no YAML: {reason}."]) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError([f"{name} (from {CONFIG_VARIABLE}) should be one mapping of setting names to values."])
    return content
