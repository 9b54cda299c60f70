"""Which metadata service a KVCache wants. Pure."""

from kvberth.kvcache.findings import Findings
from kvberth.kvcache.generations import is_first_generation
from kvberth.kvcache.spec import MetadataMode
from kvberth_schemas.manifests import KVCacheFields
from kvberth_schemas.manifests.kvcache import MetadataSpec


def metadata_mode(fields: KVCacheFields, findings: Findings) -> tuple[MetadataMode, str | None]:
    """Return the mode and, for `external`, the endpoint.

    Without a mode of its own a manifest gets `external` where it names a connection, `shared` where it is of the
    first generation or names etcd (legacy engines need it), and `local` otherwise.
    """
    metadata = fields.metadata or MetadataSpec()
    _one_place(metadata, findings)
    connection = metadata.etcd.external_connection if metadata.etcd else None
    address = (connection.address if connection else None) or None
    if metadata.endpoint and address and metadata.endpoint != address:
        field = "spec.metadata.etcd.externalConnection.address"
        findings.complain(field, f"is {address}, but spec.metadata.endpoint is {metadata.endpoint}", "keep one of them")
    endpoint = metadata.endpoint or address
    mode = metadata.mode or _default(fields, metadata, endpoint)
    if mode == "external" and endpoint is None:
        findings.complain("spec.metadata.endpoint", "is missing, although the mode is external", "write host:port")
    if mode != "external" and endpoint is not None:
        findings.complain(
            "spec.metadata.mode", f"is {mode}, but an endpoint is named", "write external, or drop the endpoint"
        )
    return mode, endpoint if mode == "external" else None


def _default(fields: KVCacheFields, metadata: MetadataSpec, endpoint: str | None) -> MetadataMode:
    if endpoint is not None:
        return "external"
    return "shared" if metadata.etcd is not None or is_first_generation(fields) else "local"


def _one_place(metadata: MetadataSpec, findings: Findings) -> None:
    """The first generation keeps etcd's image and replicas beside `runtime`, the second in it."""
    etcd = metadata.etcd
    if etcd is None or etcd.runtime is None:
        return
    for name in ("image", "replicas"):
        first, second = getattr(etcd, name), getattr(etcd.runtime, name)
        if first and second and first != second:
            field = f"spec.metadata.etcd.runtime.{name}"
            findings.complain(field, f"is {second}, but spec.metadata.etcd.{name} is {first}", "keep one of them")
