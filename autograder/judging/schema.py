"""Types with limits for probes and observations: what a pack stores (`packs.schema`) and what goes over the wire (`codec`).

Trees are `Any` here, because `values.fetch` checks them. Nothing else in `judging` imports this module, because a browser has
no msgspec.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

MAX_NAMES = 100
Name = Annotated[str, Meta(max_length=200)]
Names = Annotated[list[Name], Meta(max_length=MAX_NAMES)]
ArrayIndex = Annotated[int, Meta(ge=0)]


class ProbeFields(msgspec.Struct, kw_only=True):
    """A probe: its inputs, and how the answer is called on them."""

    inputs: Any
    grad: Names
    cotangent: Any = None
    room: float = 0.0
    by_hand: bool = False
    elsewhere: bool = False


class ObservationFields(msgspec.Struct, kw_only=True):
    """What every stored or sent observation has. Gradients and failures are stored otherwise than sent."""

    mutated: Names
    value: Any = None


class FailureFields(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The beginning of a stored or sent failure."""

    kind: Name
    type: Name
