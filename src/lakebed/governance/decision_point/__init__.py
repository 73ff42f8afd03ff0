"""External authorization by a decision point such as Open Policy Agent (ADR 23)."""

from .client import DecisionEndpoint, DecisionPoint
from .decision_input import DecisionQuery, batch_document, decision_document
from .external_authorizer import ExternalAuthorizer

__all__ = [
    "DecisionEndpoint",
    "DecisionPoint",
    "DecisionQuery",
    "ExternalAuthorizer",
    "batch_document",
    "decision_document",
]
