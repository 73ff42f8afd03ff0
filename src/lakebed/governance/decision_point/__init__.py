"""A decision point elsewhere, such as Open Policy Agent, asked by the one authorizer (ADR 23)."""

from .client import DecisionEndpoint, DecisionPoint
from .decision_input import Asked, batch_document, document
from .external_authorizer import DelegatingAuthorizer

__all__ = ["Asked", "DecisionEndpoint", "DecisionPoint", "DelegatingAuthorizer", "batch_document", "document"]
