"""Errors of the JSON APIs: one table from domain errors to status and type, and Iceberg's ErrorModel document.

Clients branch on both. A commit returns 409 only if certainly nothing was committed, and 5xx if that is unknown: after
409 a client deletes its files and retries; after 5xx it must do neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Headers, Response

JSON: Final = ("Content-Type", "application/json")

INTERNAL_ERROR: Final = "internal error; whether anything was changed is unknown"


class ErrorModel(NamedTuple):
    """The status and type of an error."""

    status: int
    type: str


class ApiFault(e.LakebedError):
    """An error of the JSON APIs that no service raises, such as an unknown path."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


ERROR_MODELS: Final[Mapping[type[e.LakebedError], ErrorModel]] = {
    e.LakebedError: ErrorModel(500, "RESTException"),
    e.InvalidInput: ErrorModel(400, "BadRequestException"),
    # Iceberg's Java client throws this exception as such, and reports all other 400s as malformed requests.
    e.InvalidViewVersion: ErrorModel(400, "IllegalArgumentException"),
    e.InvalidPolicy: ErrorModel(400, "InvalidPolicyException"),
    e.NotAttachable: ErrorModel(400, "PolicyAttachException"),
    e.ConflictingProperties: ErrorModel(422, "UnprocessableEntityException"),
    e.NotFound: ErrorModel(404, "NoSuchResourceException"),
    e.NoSuchBucket: ErrorModel(404, "NoSuchWarehouseException"),
    e.NoSuchPrincipal: ErrorModel(404, "NotFoundException"),
    e.NoSuchCatalog: ErrorModel(404, "NoSuchWarehouseException"),
    e.NoSuchNamespace: ErrorModel(404, "NoSuchNamespaceException"),
    e.NoSuchTable: ErrorModel(404, "NoSuchTableException"),
    e.NoSuchView: ErrorModel(404, "NoSuchViewException"),
    e.NoSuchPolicy: ErrorModel(404, "NoSuchPolicyException"),
    e.NoSuchPolicyType: ErrorModel(404, "NoSuchPolicyTypeException"),
    e.NoSuchTarget: ErrorModel(404, "NoSuchTargetException"),
    e.NoSuchAttachment: ErrorModel(404, "NoSuchMappingException"),
    e.NoSuchPlanId: ErrorModel(404, "NoSuchPlanIdException"),
    e.NoSuchPlanTask: ErrorModel(404, "NoSuchPlanTaskException"),
    e.AlreadyExists: ErrorModel(409, "AlreadyExistsException"),
    e.PreconditionFailed: ErrorModel(409, "CommitFailedException"),
    e.PolicyVersionMismatch: ErrorModel(409, "PolicyVersionMismatchException"),
    e.StateConflict: ErrorModel(409, "CommitFailedException"),
    e.NamespaceNotEmpty: ErrorModel(409, "NamespaceNotEmptyException"),
    e.CatalogNotEmpty: ErrorModel(400, "BadRequestException"),
    e.TableProtected: ErrorModel(409, "TableProtectedException"),
    e.PolicyInUse: ErrorModel(400, "PolicyInUseException"),
    e.AttachmentConflict: ErrorModel(409, "ConflictPolicyAttachmentException"),
    # The stored response has just expired, or the clocks of two servers differ.
    e.DuplicateRequest: ErrorModel(503, "ServiceUnavailableException"),
    # Serializable transactions kept conflicting with others: nothing was committed.
    e.WriteConflict: ErrorModel(409, "CommitFailedException"),
    # The worker's lease on the job or task has ended: it must stop.
    e.Fenced: ErrorModel(409, "LeaseLostException"),
    e.Unauthenticated: ErrorModel(401, "NotAuthorizedException"),
    e.AccessDenied: ErrorModel(403, "ForbiddenException"),
    e.IntegrityMismatch: ErrorModel(400, "BadRequestException"),
    e.Incomplete: ErrorModel(400, "BadRequestException"),
    e.NotSupported: ErrorModel(406, "UnsupportedOperationException"),
    e.Throttled: ErrorModel(429, "TooManyRequestsException"),
    e.ExternalCatalogError: ErrorModel(502, "BadGatewayException"),
    e.Unavailable: ErrorModel(503, "ServiceUnavailableException"),
    e.StorageFull: ErrorModel(507, "ServiceUnavailableException"),
    e.Corrupted: ErrorModel(500, "RESTException"),
}

_SIGNATURE_TYPES: Final[Mapping[int, str]] = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    501: "UnsupportedOperationException",
}
"""Types of the faults that SigV4 authentication raises, by their status."""

_TYPES_BY_CODE: Final[Mapping[str, str]] = {"ExpiredToken": "ExpiredTokenException"}
"""Types for codes that clients branch on: AWS's JSON APIs, such as S3 Tables, use these names."""


def error_model(error: e.LakebedError) -> ErrorModel:
    """The status and type of an error."""
    if isinstance(error, ApiFault):
        return ErrorModel(error.status, error.kind)
    if isinstance(error, AwsFault):
        status = 406 if error.status == 501 else error.status
        return ErrorModel(status, _TYPES_BY_CODE.get(error.code) or _SIGNATURE_TYPES.get(error.status, "RESTException"))
    if isinstance(error, e.Unavailable) and error.undecided:
        # Not 503, after which clients retry: the commit may have succeeded.
        return ErrorModel(500, "CommitStateUnknownException")
    return next(ERROR_MODELS[kind] for kind in type(error).__mro__ if kind in ERROR_MODELS)


def error_response(model: ErrorModel, message: str, *, is_head: bool = False) -> Response:
    """The response to a failed request; without a body for HEAD."""
    headers: Headers = [JSON]
    if model.status == 401:
        headers.append(("WWW-Authenticate", 'Bearer realm="lakebed"'))
    if is_head:
        return Response(model.status, headers)
    if model.status == 503:
        # Without it, clients do not retry a POST.
        headers.append(("Retry-After", "1"))
    return Response(model.status, headers, error_document(model, message))


def error_document(model: ErrorModel, message: str) -> bytes:
    """The body of an error."""
    return msgspec.json.encode({"error": {"message": message, "type": model.type, "code": model.status}})


def client_message(error: e.LakebedError, model: ErrorModel) -> str:
    """The message for the client; a generic one for errors without a message."""
    return str(error) or (INTERNAL_ERROR if model.status == 500 else model.type)
