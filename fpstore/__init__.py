"""fpstore: an exact, compressed, on-disk index of 64-bit fingerprints (1-bit MinHash, simhash).

Names are imported when they are first used, so that `fpstore --help` does not wait for numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpstore.forks import importing
from fpstore.platforms import expect_supported

if TYPE_CHECKING:
    from fpstore.errors import (
        CorruptStore,
        Damage,
        Error,
        JobError,
        NotAStore,
        PlanError,
        ReadOnly,
        RecipeError,
        StoreChanged,
        StoreClosed,
        StoreLocked,
        StoreWarning,
        TooManyMatches,
        UnsupportedVersion,
        WrongKind,
    )
    from fpstore.inputs.errors import BadInput
    from fpstore.living.stats import Stats
    from fpstore.living.verified import Verified
    from fpstore.making import build, create, open, predict
    from fpstore.plans.plan import Plan, TablePlan
    from fpstore.plans.planner import Prediction
    from fpstore.progress import OnProgress, Progress
    from fpstore.query.additions import Addition, Additions
    from fpstore.query.id_pairs import IdPair, IdPairs
    from fpstore.query.matches import Match, Matches
    from fpstore.query.pairs import Pair, Pairs
    from fpstore.query.tables import Row, Rows
    from fpstore.recovered import Recovered
    from fpstore.recovery import recover
    from fpstore.segment.report import Report
    from fpstore.segment.spikes import Sharing, Spike, Spikes
    from fpstore.store import Store

expect_supported()

__version__ = "0.1.0"

__all__ = [
    "Addition",
    "Additions",
    "BadInput",
    "CorruptStore",
    "Damage",
    "Error",
    "IdPair",
    "IdPairs",
    "JobError",
    "Match",
    "Matches",
    "NotAStore",
    "OnProgress",
    "Pair",
    "Pairs",
    "Plan",
    "PlanError",
    "Prediction",
    "Progress",
    "ReadOnly",
    "RecipeError",
    "Recovered",
    "Report",
    "Row",
    "Rows",
    "Sharing",
    "Spike",
    "Spikes",
    "Stats",
    "Store",
    "StoreChanged",
    "StoreClosed",
    "StoreLocked",
    "StoreWarning",
    "TablePlan",
    "TooManyMatches",
    "UnsupportedVersion",
    "Verified",
    "WrongKind",
    "__version__",
    "build",
    "create",
    "open",
    "predict",
    "recover",
]

_HOMES = {
    "query.additions": ("Addition", "Additions"),
    "errors": (
        "CorruptStore",
        "Damage",
        "Error",
        "JobError",
        "NotAStore",
        "PlanError",
        "ReadOnly",
        "RecipeError",
        "StoreChanged",
        "StoreClosed",
        "StoreLocked",
        "StoreWarning",
        "TooManyMatches",
        "UnsupportedVersion",
        "WrongKind",
    ),
    "inputs.errors": ("BadInput",),
    "living.stats": ("Stats",),
    "living.verified": ("Verified",),
    "making": ("build", "create", "open", "predict"),
    "query.id_pairs": ("IdPair", "IdPairs"),
    "query.matches": ("Match", "Matches"),
    "query.pairs": ("Pair", "Pairs"),
    "query.tables": ("Row", "Rows"),
    "progress": ("OnProgress", "Progress"),
    "plans.plan": ("Plan", "TablePlan"),
    "plans.planner": ("Prediction",),
    "recovered": ("Recovered",),
    "recovery": ("recover",),
    "segment.report": ("Report",),
    "segment.spikes": ("Sharing", "Spike", "Spikes"),
    "store": ("Store",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fpstore' has no attribute {name!r}")
    with importing:
        home = import_module(f"fpstore.{_HOME_OF[name]}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
