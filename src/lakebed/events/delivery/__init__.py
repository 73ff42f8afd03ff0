"""Delivery of events to targets: at least once, in order per object and table, with retries and dead letters."""

from .dispatcher import DeliveryCounts, DeliveryObserver, EventDispatcher, TargetBacklog
from .model import Delivery, DeliveryState, Subscription, TargetOrigin, TargetRecord, parse_subscription
from .records import TargetRecords
from .request_log import RequestLog
from .service import PutTargetResult, TargetService, TargetSpec, TargetStatus, check_requests, masked_settings

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
    "masked_settings",
    "parse_subscription",
]
