"""A decision point elsewhere, such as Open Policy Agent, asked by the one authorizer (ADR 23)."""

from .authorizer import DelegatingAuthorizer
from .point import DecisionEndpoint, DecisionPoint
from .questions import Asked, batch_document, document

__all__ = ["Asked", "DecisionEndpoint", "DecisionPoint", "DelegatingAuthorizer", "batch_document", "document"]
