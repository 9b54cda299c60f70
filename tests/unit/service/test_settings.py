"""Settings: precedence, defaults, and one sentence per fault that names what to change."""

from pathlib import Path

import pytest
from pydantic import BaseModel, Field, SecretStr, ValidationError

from kvberth.service import ServiceSettings, SettingsError, load_settings


class Limits(BaseModel):
    actions: int = 3


class SampleSettings(ServiceSettings):
    interval_s: float = Field(1.0, gt=0)
    """Seconds between two looks. Default 1."""

    limits: Limits = Limits()
    names: tuple[str, ...] = ()
    token: SecretStr | None = Field(None, min_length=8)


class RequiredSettings(ServiceSettings):
    cluster: str
    """Name of the cluster. No default: nobody can guess it."""


@pytest.fixture
def config(tmp_path, monkeypatch):
    path = tmp_path / "settings.yaml"
    monkeypatch.setenv("KVBERTH_CONFIG", str(path))

    def write(text):
        path.write_text(text)
        return path

    return write


def faults(cls=SampleSettings):
    with pytest.raises(SettingsError) as caught:
        load_settings(cls)
    return caught.value.faults


def test_defaults_need_nothing_from_outside():
    settings = load_settings(ServiceSettings)
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert settings.state == Path.home() / ".local/state/kvberth"
    assert not settings.state_given
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 0)
    assert (settings.log_level, settings.log_format, settings.otlp_endpoint) == ("info", None, None)
    assert (settings.shutdown_timeout_s, settings.lag_interval_s) == (10, 0.05)
    assert settings.node is None


def test_every_process_gets_an_instance_name_of_its_own():
    assert load_settings(ServiceSettings).instance != load_settings(ServiceSettings).instance


def test_every_setting_is_documented():
    assert [name for name, field in ServiceSettings.model_fields.items() if not field.description] == []


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(config, monkeypatch):
    config("http_port: 8001\nlog_level: debug\nlimits: {actions: 5}\n")
    monkeypatch.setenv("KVBERTH_HTTP_PORT", "8002")
    settings = load_settings(SampleSettings)
    assert (settings.http_port, settings.log_level, settings.limits.actions) == (8002, "debug", 5)


def test_a_chosen_state_directory_is_known_as_chosen(monkeypatch):
    monkeypatch.setenv("KVBERTH_STATE", "~/elsewhere")
    settings = load_settings(ServiceSettings)
    assert settings.state == Path.home() / "elsewhere"
    assert settings.state_given


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("KVBERTH_NODE", "")
    assert load_settings(ServiceSettings).node is None


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError, match="frozen"):
        load_settings(ServiceSettings).http_port = 1


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("KVBERTH_HTTP_PORT", "eighty", "it should be a valid integer"),
        ("KVBERTH_HTTP_PORT", "70000", "it should be less than or equal to 65535"),
        ("KVBERTH_LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("KVBERTH_NATS_URL", "localhost:4222", "it should be a URL like nats://host:port"),
        ("KVBERTH_OTLP_ENDPOINT", "collector:4318", "it should be a URL like http://host:port"),
        ("KVBERTH_SHUTDOWN_TIMEOUT_S", "0", "it should be greater than 0"),
        ("KVBERTH_LIMITS__ACTIONS", "many", "it should be a valid integer"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value_and_what_would_be_right(monkeypatch, variable, value, right):
    monkeypatch.setenv(variable, value)
    (sentence,) = faults()
    assert sentence.startswith(f"{variable} is '{value}', but ")
    assert right in sentence


def test_a_fault_says_what_the_setting_means(monkeypatch):
    monkeypatch.setenv("KVBERTH_INTERVAL_S", "-1")
    assert faults() == ["KVBERTH_INTERVAL_S is '-1', but it should be greater than 0 (seconds between two looks)."]


def test_every_fault_gets_a_sentence(monkeypatch):
    monkeypatch.setenv("KVBERTH_HTTP_PORT", "x")
    monkeypatch.setenv("KVBERTH_LOG_FORMAT", "xml")
    assert [sentence.split()[0] for sentence in faults()] == ["KVBERTH_HTTP_PORT", "KVBERTH_LOG_FORMAT"]


def test_a_list_that_is_no_json_names_its_variable(monkeypatch):
    monkeypatch.setenv("KVBERTH_NAMES", "a,b")
    (sentence,) = faults()
    assert sentence.startswith("KVBERTH_NAMES is 'a,b', but ")
    assert "JSON" in sentence


def test_a_wrong_key_in_the_file_is_named_by_file_and_key(config):
    path = config("limits: {actions: many}\n")
    (sentence,) = faults()
    assert sentence.startswith(f"{path}: limits.actions is 'many', but it should be a valid integer")


def test_an_unknown_key_in_the_file_is_an_error_with_the_nearest_name(config):
    path = config("nats_ulr: nats://elsewhere:4222\n")
    assert faults() == [f"{path}: nats_ulr is no setting of this service; did you mean nats_url?"]


def test_a_required_setting_that_is_missing_is_named():
    assert faults(RequiredSettings) == ["KVBERTH_CLUSTER is not set, but is required (name of the cluster)."]


def test_a_secret_is_never_shown(monkeypatch):
    monkeypatch.setenv("KVBERTH_TOKEN", "hunter2")
    monkeypatch.setenv("KVBERTH_NATS_URL", "redis://me:hunter2@host:4222")
    assert "hunter2" not in " ".join(faults())


@pytest.mark.parametrize("variable", ["KVBERTH_NATS_NKEY_FILE", "KVBERTH_NATS_TLS_CA"])
def test_a_file_for_the_bus_that_can_not_be_read_is_named_at_the_start_and_never_shown(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    (sentence,) = faults()
    assert sentence.startswith(variable)
    assert "should be a file that can be read (No such file or directory)" in sentence
    (tmp_path / "none").write_text("secret")
    assert "secret" not in repr(load_settings(ServiceSettings))


@pytest.mark.parametrize(
    ("text", "fault"),
    [("a: [", "is no YAML"), ("- a\n- b\n", "should be one mapping"), ("1: a\n", "should be one mapping")],
)
def test_a_file_that_is_no_mapping_is_refused_by_name(config, text, fault):
    path = config(text)
    (sentence,) = faults()
    assert sentence.startswith(f"{path} (from KVBERTH_CONFIG) {fault}")
    assert "\n" not in sentence


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("KVBERTH_CONFIG", str(tmp_path / "none.yaml"))
    (sentence,) = faults()
    assert sentence.startswith("KVBERTH_CONFIG names ")
    assert "No such file or directory" in sentence


def test_an_empty_file_changes_nothing(config):
    config("")
    assert load_settings(ServiceSettings).http_port == 0
