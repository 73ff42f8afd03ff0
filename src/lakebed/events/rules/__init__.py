"""Notification rules of buckets: configurations, their versions, and matching of events."""

from .arns import TargetArn, parse_arn
from .model import NO_RULES, NotificationConfiguration, NotificationRule
from .service import BucketNotifications
from .validation import MAX_RULES
from .versions import RuleMatcher, buckets_naming, trim_versions

__all__ = [
    "MAX_RULES",
    "NO_RULES",
    "BucketNotifications",
    "NotificationConfiguration",
    "NotificationRule",
    "RuleMatcher",
    "TargetArn",
    "buckets_naming",
    "parse_arn",
    "trim_versions",
]
