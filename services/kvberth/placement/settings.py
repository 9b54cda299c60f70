"""What placement can be told from outside."""

from pydantic import Field

from kvberth.service import ServiceSettings


class PlacementSettings(ServiceSettings):
    """The settings of all services, and how placement paces itself."""

    coalesce_s: float = Field(0.005, ge=0, le=1)
    """Seconds that changes are collected before one plan is made for all of them. Default 0.005."""

    recheck_s: float = Field(30.0, gt=0, le=600)
    """Seconds after which everything is planned again although nothing changed. Default 30."""
