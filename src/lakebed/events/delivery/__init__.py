"""Events on their way to targets: in the order of each object and table, at least once, with dead letters."""

from .dispatcher import Dispatcher, Observer, Standing, Tally
from .model import Delivery, DeliveryState, Origin, TargetRecord, Wish, wish
from .records import TargetRecords
from .request_log import RequestLog
from .service import Asked, Put, Targets, TargetStatus, check_requests, shown_settings

__all__ = [
    "Asked",
    "Delivery",
    "DeliveryState",
    "Dispatcher",
    "Observer",
    "Origin",
    "Put",
    "RequestLog",
    "Standing",
    "Tally",
    "TargetRecord",
    "TargetRecords",
    "TargetStatus",
    "Targets",
    "Wish",
    "check_requests",
    "shown_settings",
    "wish",
]
