"""Serializes requests and parses responses with botocore, as the reference for S3's documents."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer


@cache
def _model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("s3")


def sent(operation: str, **parameters: Any) -> bytes:  # Any: botocore's parameters are as various as S3's
    """The body of the client's request."""
    request = create_serializer("rest-xml", include_validation=False).serialize_to_request(
        parameters, _model().operation_model(operation)
    )
    body = request["body"]
    assert isinstance(body, bytes)
    return body


def understood(operation: str, body: bytes, status: int = 200) -> dict[str, Any]:  # Any: as above
    """The client's parsed response, without its metadata."""
    response: dict[str, Any] = create_parser("rest-xml").parse(  # Any: as above
        {"status_code": status, "headers": {}, "body": body}, _model().operation_model(operation).output_shape
    )
    response.pop("ResponseMetadata", None)
    return response


_model()  # takes a quarter of a second, which should not count for a test
