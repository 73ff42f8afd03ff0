"""Events posted to those who asked for them: signed, in the order of each table, at least once."""

from .dispatching import Dispatcher, Tally
from .model import Delivery, DeliveryState, Origin, Subscriber
from .sending import HttpSender, Sender
from .service import Webhooks, WebhookStatus

__all__ = [
    "Delivery",
    "DeliveryState",
    "Dispatcher",
    "HttpSender",
    "Origin",
    "Sender",
    "Subscriber",
    "Tally",
    "WebhookStatus",
    "Webhooks",
]
