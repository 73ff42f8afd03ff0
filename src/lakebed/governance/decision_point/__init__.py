"""A decision point elsewhere, such as Open Policy Agent, asked by the one authorizer (ADR 23)."""

from .authorizer import DelegatingAuthorizer
from .connections import Connections
from .point import DecisionPoint
from .questions import Asked, batch_document, document

__all__ = ["Asked", "Connections", "DecisionPoint", "DelegatingAuthorizer", "batch_document", "document"]
