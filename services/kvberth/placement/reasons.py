"""Reason constants of steps and conditions. What they mean is told by the sentence beside them."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a step is taken, or why a condition stands as it does."""

    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    UNREADABLE = "Unreadable"
    NOT_ACCEPTED = "NotAccepted"
    NOT_FOUND = "NotFound"
    SOURCE_STALE = "SourceStale"
    PAUSED = "Paused"
    TURNED_OFF = "TurnedOff"
    DELETED = "Deleted"

    PLACED = "Placed"
    CONFLICT = "Conflict"
    NO_ENGINE = "NoEngine"
    ENGINE_WAITING = "EngineWaiting"
    NO_NODE_WITH_LABEL = "NoNodeWithLabel"
    NO_POOL = "NoPool"
    NODE_EXCLUDED = "NodeExcluded"
    NODE_UNKNOWN = "NodeUnknown"
    CANNOT_FIT = "CannotFit"

    ALL_ANSWERED = "AllAnswered"
    NOT_ANSWERING = "NotAnswering"
    DIRECTORY_DIFFERS = "DirectoryDiffers"
    AGENT_SILENT = "AgentSilent"
    NOT_PROBED = "NotProbed"
    LOCAL = "Local"
    ALL_SERVED = "AllServed"

    ENGINE_BOUND = "EngineBound"
    RENEWED = "Renewed"
    ENGINES_BOUND_ELSEWHERE = "EnginesBoundElsewhere"
    SCALED_TO_ZERO = "ScaledToZero"
    LINGERED = "Lingered"
    NODE_GONE = "NodeGone"
    ENDED = "Ended"

    BUDGET_REFUSES = "BudgetRefuses"
    BUDGET_UNUSABLE = "BudgetUnusable"
    ENGINE_FOUND = "EngineFound"
    SWAPPED_FOR_QUOTA = "SwappedForQuota"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CREATE_REFUSED = "CreateRefused"
    WRITE_REFUSED = "WriteRefused"
    NAME_TAKEN = "NameTaken"
    MANAGED_BY_ANOTHER = "ManagedByAnother"
    EARLIER_LIFE = "EarlierLife"
