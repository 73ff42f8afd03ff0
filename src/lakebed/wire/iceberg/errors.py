"""The catalog's errors: one table from the domain's errors to status and type, and the envelope they go out in.

Clients branch on both. A commit answers 409 only when it is certain that nothing was committed, and a 5xx when that is
unknown: after the first a client cleans up its files and tries again, after the second it must do neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.s3.errors import S3Fault

JSON: Final = ("Content-Type", "application/json")


class Refusal(NamedTuple):
    """A status and a type."""

    status: int
    type: str


class CatalogFault(e.LakebedError):
    """An error that only exists on this wire."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


CATALOG_ERRORS: Final[Mapping[type[e.LakebedError], Refusal]] = {
    e.LakebedError: Refusal(500, "RESTException"),
    e.InvalidInput: Refusal(400, "BadRequestException"),
    # Java's client throws it as it is told; of any other 400 it says that the request is malformed.
    e.InvalidViewVersion: Refusal(400, "IllegalArgumentException"),
    e.InvalidPolicy: Refusal(400, "InvalidPolicyException"),
    e.NotAttachable: Refusal(400, "PolicyAttachException"),
    e.ConflictingProperties: Refusal(422, "UnprocessableEntityException"),
    e.NotFound: Refusal(404, "NoSuchResourceException"),
    e.NoSuchBucket: Refusal(404, "NoSuchWarehouseException"),
    e.NoSuchPrincipal: Refusal(404, "NotFoundException"),
    e.NoSuchWarehouse: Refusal(404, "NoSuchWarehouseException"),
    e.NoSuchNamespace: Refusal(404, "NoSuchNamespaceException"),
    e.NoSuchTable: Refusal(404, "NoSuchTableException"),
    e.NoSuchView: Refusal(404, "NoSuchViewException"),
    e.NoSuchPolicy: Refusal(404, "NoSuchPolicyException"),
    e.NoSuchPolicyType: Refusal(404, "NoSuchPolicyTypeException"),
    e.NoSuchTarget: Refusal(404, "NoSuchTargetException"),
    e.NoSuchAttachment: Refusal(404, "NoSuchMappingException"),
    e.NoSuchPlanId: Refusal(404, "NoSuchPlanIdException"),
    e.NoSuchPlanTask: Refusal(404, "NoSuchPlanTaskException"),
    e.AlreadyExists: Refusal(409, "AlreadyExistsException"),
    e.PreconditionFailed: Refusal(409, "CommitFailedException"),
    e.PolicyVersionMismatch: Refusal(409, "PolicyVersionMismatchException"),
    e.StateConflict: Refusal(409, "CommitFailedException"),
    e.NamespaceNotEmpty: Refusal(409, "NamespaceNotEmptyException"),
    e.CatalogNotEmpty: Refusal(400, "BadRequestException"),
    e.TableProtected: Refusal(409, "TableProtectedException"),
    e.PolicyInUse: Refusal(400, "PolicyInUseException"),
    e.AttachmentConflict: Refusal(409, "ConflictPolicyAttachmentException"),
    # Its answer has just expired, or the server that gave it has another clock.
    e.AlreadyAnswered: Refusal(503, "ServiceUnavailableException"),
    # Serializable transactions kept losing to others: nothing of this one is there.
    e.WriteConflict: Refusal(409, "CommitFailedException"),
    # Whoever is told so holds the job or task no longer: it is to stop, and to leave the rest to who does.
    e.Fenced: Refusal(409, "LeaseLostException"),
    e.Unauthenticated: Refusal(401, "NotAuthorizedException"),
    e.AccessDenied: Refusal(403, "ForbiddenException"),
    e.IntegrityMismatch: Refusal(400, "BadRequestException"),
    e.Incomplete: Refusal(400, "BadRequestException"),
    e.NotSupported: Refusal(406, "UnsupportedOperationException"),
    e.Throttled: Refusal(429, "TooManyRequestsException"),
    e.RemoteFault: Refusal(502, "BadGatewayException"),
    e.Unavailable: Refusal(503, "ServiceUnavailableException"),
    e.StorageFull: Refusal(507, "ServiceUnavailableException"),
    e.Corrupted: Refusal(500, "RESTException"),
}

_SIGNATURE_TYPES: Final[Mapping[int, str]] = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    501: "UnsupportedOperationException",
}
"""Types of the faults that SigV4 authentication raises, by their status."""

_TYPES_BY_CODE: Final[Mapping[str, str]] = {"ExpiredToken": "ExpiredTokenException"}
"""Types of those that callers act upon: AWS's APIs with JSON, such as S3 Tables, have them under these names."""


def refusal_of(error: e.LakebedError) -> Refusal:
    """The status and type of an error."""
    if isinstance(error, CatalogFault):
        return Refusal(error.status, error.kind)
    if isinstance(error, S3Fault):
        status = 406 if error.status == 501 else error.status
        return Refusal(status, _TYPES_BY_CODE.get(error.code) or _SIGNATURE_TYPES.get(error.status, "RESTException"))
    if isinstance(error, e.Unavailable) and error.undecided:
        # Not 503, which asks clients to try again: this one may have happened.
        return Refusal(500, "CommitStateUnknownException")
    for ancestor in type(error).__mro__:
        if issubclass(ancestor, e.LakebedError) and ancestor in CATALOG_ERRORS:
            return CATALOG_ERRORS[ancestor]
    return CATALOG_ERRORS[e.LakebedError]


def error_response(refusal: Refusal, message: str, *, is_head: bool = False) -> Response:
    """The envelope; the answer to a HEAD has its headers and no body."""
    headers: Headers = [JSON]
    if refusal.status == 401:
        headers.append(("WWW-Authenticate", 'Bearer realm="lakebed"'))
    if is_head:
        return Response(refusal.status, headers)
    if refusal.status == 503:
        # Without it clients do not repeat a POST that was refused before it did anything.
        headers.append(("Retry-After", "1"))
    return Response(refusal.status, headers, error_document(refusal, message))


def error_document(refusal: Refusal, message: str) -> bytes:
    """The body of an error."""
    return msgspec.json.encode({"error": {"message": message, "type": refusal.type, "code": refusal.status}})
