"""Events on their way to targets: in the order of each object and table, at least once, with dead letters."""

from .dispatcher import DeliveryCounts, DeliveryObserver, EventDispatcher, TargetBacklog
from .model import Delivery, DeliveryState, Subscription, TargetOrigin, TargetRecord, parse_subscription
from .records import TargetRecords
from .request_log import RequestLog
from .service import PutTargetResult, TargetService, TargetSpec, TargetStatus, check_requests, shown_settings

__all__ = [
    "Delivery",
    "DeliveryCounts",
    "DeliveryObserver",
    "DeliveryState",
    "EventDispatcher",
    "PutTargetResult",
    "RequestLog",
    "Subscription",
    "TargetBacklog",
    "TargetOrigin",
    "TargetRecord",
    "TargetRecords",
    "TargetService",
    "TargetSpec",
    "TargetStatus",
    "check_requests",
    "parse_subscription",
    "shown_settings",
]
