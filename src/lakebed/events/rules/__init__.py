"""Which events of a bucket go to which targets: configurations, what they match, and which of them held when."""

from .arns import TargetArn, parse_arn
from .matching import RuleMatcher
from .model import NO_RULES, Configuration, Rule
from .service import Notifications
from .validation import MAX_RULES
from .versions import buckets_naming, trim_versions

__all__ = [
    "MAX_RULES",
    "NO_RULES",
    "Configuration",
    "Notifications",
    "Rule",
    "RuleMatcher",
    "TargetArn",
    "buckets_naming",
    "parse_arn",
    "trim_versions",
]
