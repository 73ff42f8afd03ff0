"""Authenticates Signature Version 4 requests, by the Authorization header or a presigned URL."""

from __future__ import annotations

import base64
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from lakebed.core.access import ANONYMOUS, Credential, CredentialResolver, Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, Unauthenticated
from lakebed.core.json.parsing import parse_body
from lakebed.wire.http.message import RAW_ERRORS, Request

from . import sigv4
from .chunk_signing import ChunkSigner, StreamingKind
from .errors import AwsFault
from .numbers import signed_number
from .sigv4 import CredentialScope, MalformedSignature, SignedHeaders, SigningKey, SigningKeyCache
from .timestamps import iso_time

MAX_SKEW_SECONDS: Final = 15 * 60
_MAX_STS_BODY_BYTES: Final = 64 * 1024
_ECDSA: Final = "AWS4-ECDSA-P256-SHA256"
"""Signature Version 4A, which S3 supports and this server does not."""

_PRESIGNED_FIELDS: Final = frozenset(
    {
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
    }
)


class PayloadClaim(NamedTuple):
    """The payload hash of a request, or the kind of its signed chunks."""

    sha256: str | None = None
    """The hexadecimal hash, if the whole body is signed."""
    streaming: StreamingKind | None = None
    signer: ChunkSigner | None = None
    seed_signature: str = ""


UNSIGNED: Final = PayloadClaim()
NO_BYTES: Final = PayloadClaim(sha256=sigv4.EMPTY_SHA256)
"""The claim of all signed requests without a body."""


class Authenticated(NamedTuple):
    """The caller, and the claim about the body."""

    principal: Principal
    payload: PayloadClaim = UNSIGNED
    is_signed: bool = True
    body: bytes | None = None
    """The body, if it was read to verify the signature."""
    signed_at: int | None = None
    """Signing time by the client's clock, in seconds since the epoch."""


class SignatureAuthenticator:
    """Verifies request signatures."""

    def __init__(
        self,
        source: CredentialResolver,
        clock: Clock,
        *,
        generic_signing: bool = False,
        max_body_bytes: int = _MAX_STS_BODY_BYTES,
    ) -> None:
        """`generic_signing` accepts requests for `s3` that are signed by the rules of other AWS services.

        Such clients encode the path twice, and may omit the payload hash: then the body is read to compute it, up to
        `max_body_bytes`. Not for S3 itself, where `a%20b` and `a b` are two keys.
        """
        self._source = source
        self._clock = clock
        self._generic_signing = generic_signing
        self._max_body_bytes = max_body_bytes
        self._keys = SigningKeyCache()

    async def authenticate(self, request: Request) -> Authenticated:
        """The caller. Raises AwsFault if the signature is malformed, expired, by an unknown key or wrong."""
        header = request.headers.get("authorization")
        if header is not None:
            if "X-Amz-" in request.raw_query and "X-Amz-Algorithm" in request.query:
                raise _two_mechanisms()
            if header.startswith(sigv4.ALGORITHM + " "):
                return await self._by_header(request, header)
            raise _unsupported_authorization(header)
        query = request.raw_query
        if "X-Amz-" in query and ("X-Amz-Signature" in request.query or "X-Amz-Algorithm" in request.query):
            return await self._by_query(request)
        if "Signature=" in query and "AWSAccessKeyId" in request.query:
            raise _unsupported_mechanism()
        stated = request.headers.get("x-amz-content-sha256", "")
        if stated.isascii() and not stated.startswith("STREAMING-") and stated not in ("", sigv4.UNSIGNED_PAYLOAD):
            # Without a signature any value is accepted; a body never matches one that is not a digest.
            return Authenticated(ANONYMOUS, PayloadClaim(sha256=stated.lower()), is_signed=False)
        return Authenticated(ANONYMOUS, _claim(stated), is_signed=False)

    # -- Authorization header -------------------------------------------------------------------------------------

    async def _by_header(self, request: Request, header: str) -> Authenticated:
        headers = request.headers
        try:
            parsed, signature = sigv4.parse_authorization(header)
        except MalformedSignature as error:
            raise AwsFault(
                400, "AuthorizationHeaderMalformed", f"The authorization header is malformed; {error}"
            ) from error
        scope = parsed.scope
        amz_date = headers.get("x-amz-date") or _from_http_date(headers.get("date"))
        if amz_date is None:
            raise _missing_date()
        signed_at = self._check_skew(amz_date, scope)
        credential = await self._credential(scope, headers.get("x-amz-security-token"))
        key = self._keys.get(scope, credential.secret)
        body: bytes | None = None
        content_hash = headers.get("x-amz-content-sha256")
        if content_hash is None:
            if scope.service == "s3" and not self._generic_signing:
                raise AwsFault(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
            body = await request.body.read(self._max_body_bytes)
            content_hash = await parse_body(sigv4.sha256_hex, body)
        signed = parsed.signed
        if "host" not in signed.names:
            raise AwsFault(
                400, "AuthorizationHeaderMalformed", "The authorization header is malformed; host is not signed."
            )
        _check_all_signed(request, signed.names)
        signer = ChunkSigner(key.sign, amz_date, parsed.scope_text) if content_hash.startswith("STREAMING-") else None
        claim = _claim(content_hash, signer, signature)
        self._verify(
            scope.access_key,
            key,
            signature,
            request,
            sigv4.canonical_query(request.raw_query),
            signed,
            content_hash,
            amz_date,
            parsed.scope_text,
        )
        return Authenticated(credential.principal, claim, True, body, signed_at)

    # -- presigned URL --------------------------------------------------------------------------------------------

    async def _by_query(self, request: Request) -> Authenticated:
        query = request.query
        if not query.keys() >= _PRESIGNED_FIELDS:
            raise _query_fault(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature,"
                " X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
            )
        algorithm = query["X-Amz-Algorithm"]
        if algorithm == _ECDSA:
            raise _query_fault('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
        if algorithm != sigv4.ALGORITHM:
            raise _query_fault(f'X-Amz-Algorithm only supports "{sigv4.ALGORITHM} and {_ECDSA}"')
        try:
            scope = sigv4.parse_scope(query["X-Amz-Credential"])
        except MalformedSignature as error:
            raise _query_fault(f"Error parsing the X-Amz-Credential parameter; {error}") from error
        amz_date = query["X-Amz-Date"]
        signed_at = self._check_expiry(amz_date, query["X-Amz-Expires"], scope)
        credential = await self._credential(scope, query.get("X-Amz-Security-Token"))
        key = self._keys.get(scope, credential.secret)
        signed = sigv4.signed_headers(query["X-Amz-SignedHeaders"].lower())
        if "host" not in signed.names:
            raise _query_fault("X-Amz-SignedHeaders must name host.")
        _check_all_signed(request, signed.names, but="x-amz-content-sha256")
        stated = request.headers.get("x-amz-content-sha256")
        content_hash = stated if stated and "x-amz-content-sha256" in signed.names else None
        content_hash = content_hash or query.get("X-Amz-Content-Sha256") or sigv4.UNSIGNED_PAYLOAD
        self._verify(
            scope.access_key,
            key,
            query["X-Amz-Signature"],
            request,
            sigv4.canonical_query(request.raw_query, without="X-Amz-Signature"),
            signed,
            content_hash,
            amz_date,
            scope.text,
        )
        claim = _claim(stated if stated and stated.startswith("STREAMING-UNSIGNED") else content_hash)
        return Authenticated(credential.principal, claim, signed_at=signed_at)

    # -- common ---------------------------------------------------------------------------------------------------

    async def verify_form(
        self, credential_text: str, amz_date: str, signature: str, document: str, session_token: str | None
    ) -> Principal:
        """The signer of a POST form; the signature is over the base64 text of the policy document."""
        try:
            scope = sigv4.parse_scope(credential_text)
        except MalformedSignature as error:
            raise AwsFault(
                400,
                "InvalidArgument",
                str(error),
                ArgumentName="x-amz-credential",
                ArgumentValue=credential_text[:200],
            ) from error
        try:
            sigv4.parse_amz_date(amz_date)
        except MalformedSignature as error:
            raise AwsFault(
                400,
                "InvalidArgument",
                "X-Amz-Date must be formated via ISO8601 Long format",
                ArgumentName="X-Amz-Date",
                ArgumentValue=amz_date[:100],
            ) from error
        credential = await self._credential(scope, session_token)
        expected = self._keys.get(scope, credential.secret).sign(document)
        if not sigv4.equal(expected, signature):
            raise _mismatch(
                AWSAccessKeyId=scope.access_key,
                StringToSign=document,
                SignatureProvided=signature,
                StringToSignBytes=_hex_bytes(document),
            )
        return credential.principal

    async def _credential(self, scope: CredentialScope, token: str | None) -> Credential:
        try:
            return await self._source.credential(scope.access_key, token)
        except CredentialsExpired as error:
            what = "The provided token has expired." if token is not None else "The provided access key has expired."
            raise AwsFault(400, "ExpiredToken", what) from error
        except Unauthenticated as error:
            # A revoked token gets the error of a deleted key: "expired" would make the client refresh it in vain, and
            # "invalid" would suggest a malformed token.
            if token is not None and not isinstance(error, CredentialsRevoked):
                raise AwsFault(400, "InvalidToken", "The provided token is malformed or otherwise invalid.") from error
            raise AwsFault(
                403,
                "InvalidAccessKeyId",
                "The AWS Access Key Id you provided does not exist in our records.",
                AWSAccessKeyId=scope.access_key,
            ) from error

    def _check_skew(self, amz_date: str, scope: CredentialScope) -> int:
        try:
            signed_at = sigv4.parse_amz_date(amz_date)
        except MalformedSignature as error:
            raise _missing_date() from error
        now = self._clock.now_ms() // 1000
        if abs(now - signed_at) > MAX_SKEW_SECONDS:
            raise AwsFault(
                403,
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                RequestTime=amz_date,
                ServerTime=iso_time(now * 1000),
                MaxAllowedSkewMilliseconds=str(MAX_SKEW_SECONDS * 1000),
            )
        if amz_date[:8] != scope.date:
            raise AwsFault(
                400,
                "AuthorizationHeaderMalformed",
                f'The authorization header is malformed; Invalid credential date "{scope.date}". This date is not the'
                f' same as X-Amz-Date: "{amz_date[:8]}".',
            )
        return signed_at

    def _check_expiry(self, amz_date: str, expires: str, scope: CredentialScope) -> int:
        try:
            signed_at = sigv4.parse_amz_date(amz_date)
        except MalformedSignature as error:
            raise _query_fault("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"") from error
        if amz_date[:8] != scope.date:
            raise _query_fault(
                f'Invalid credential date "{scope.date}". This date is not the same as X-Amz-Date: "{amz_date[:8]}".'
            )
        seconds = signed_number(expires)
        if seconds is None:
            raise _query_fault("X-Amz-Expires should be a number")
        if seconds < 0:
            raise _query_fault("X-Amz-Expires must be non-negative")
        if seconds > sigv4.MAX_PRESIGNED_SECONDS:
            raise _query_fault(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less"
                " than 604800 seconds"
            )
        now = self._clock.now_ms() // 1000
        if signed_at > now + MAX_SKEW_SECONDS:
            raise AwsFault(403, "AccessDenied", "Request is not yet valid")
        if now >= signed_at + seconds:
            raise AwsFault(
                403,
                "AccessDenied",
                "Request has expired.",
                **{
                    "X-Amz-Expires": expires,
                    "Expires": iso_time((signed_at + seconds) * 1000),
                    "ServerTime": iso_time(now * 1000),
                },
            )
        return signed_at

    def _verify(
        self,
        access_key: str,
        key: SigningKey,
        signature: str,
        request: Request,
        query: str,
        signed: SignedHeaders,
        content_hash: str,
        amz_date: str,
        scope: str,
    ) -> None:
        try:
            lines = signed.lines(request.headers)
        except MalformedSignature as error:
            raise AwsFault(403, "SignatureDoesNotMatch", f"The request cannot be verified; {error}") from error
        canonical = sigv4.canonical_request(request.method, request.raw_path, query, lines, signed.text, content_hash)
        text = sigv4.string_to_sign(canonical, amz_date, scope)
        if sigv4.equal(key.sign(text), signature):
            return
        # Nearly all clients sign the raw request. Other encodings are tried only after a mismatch.
        if not sigv4.signature_matches(
            key,
            signature,
            method=request.method,
            raw_path=request.raw_path,
            query=query,
            header_lines=lines,
            signed=signed.text,
            payload_hash=content_hash,
            amz_date=amz_date,
            scope=scope,
            twice=self._generic_signing,
        ):
            # Like S3: developers can compare these with the client's. None of them contains the secret.
            raise _mismatch(
                AWSAccessKeyId=access_key,
                StringToSign=text,
                SignatureProvided=signature,
                StringToSignBytes=_hex_bytes(text),
                CanonicalRequest=canonical,
                CanonicalRequestBytes=_hex_bytes(canonical),
            )


def _claim(content_hash: str, signer: ChunkSigner | None = None, seed: str = "") -> PayloadClaim:
    """The claim of `x-amz-content-sha256`. Raises AwsFault."""
    if not content_hash or content_hash == sigv4.UNSIGNED_PAYLOAD:
        return UNSIGNED
    if content_hash == sigv4.EMPTY_SHA256:
        return NO_BYTES
    if content_hash.startswith("STREAMING-"):
        try:
            kind = StreamingKind(content_hash)
        except ValueError as error:
            raise AwsFault(501, "NotImplemented", f"x-amz-content-sha256 is not supported: {content_hash}") from error
        if kind.is_signed and signer is None:
            raise AwsFault(
                400,
                "InvalidRequest",
                "Anonymous requests don't support this x-amz-content-sha256 value. Please use UNSIGNED-PAYLOAD or"
                " STREAMING-UNSIGNED-PAYLOAD-TRAILER.",
            )
        return PayloadClaim(streaming=kind, signer=signer, seed_signature=seed)
    if len(content_hash) == 64 and _is_hex(content_hash):
        return PayloadClaim(sha256=content_hash.lower())
    if len(content_hash) == 44:
        try:
            return PayloadClaim(sha256=base64.b64decode(content_hash, validate=True).hex())
        except ValueError:  # not base64, or not even ASCII
            pass
    raise AwsFault(
        400,
        "InvalidArgument",
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER,"
        " STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER,"
        " STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256"
        " value.",
        ArgumentName="x-amz-content-sha256",
        ArgumentValue=content_hash[:200],
    )


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True


def _check_all_signed(request: Request, signed: tuple[str, ...], *, but: str | None = None) -> None:
    """Reject unsigned `x-amz-` headers, which may have been added in transit."""
    unsigned = [name for name in request.headers if name.startswith("x-amz-") and name not in signed and name != but]
    if unsigned:
        raise AwsFault(
            403,
            "AccessDenied",
            "There were headers present in the request which were not signed",
            HeadersNotSigned=", ".join(sorted(unsigned)),
        )


def _from_http_date(text: str | None) -> str | None:
    """The Date header in the format of x-amz-date; it may already have that format."""
    if text is None:
        return None
    if len(text) == 16 and text[8] == "T":
        return text
    try:
        return parsedate_to_datetime(text).strftime("%Y%m%dT%H%M%SZ")
    except ValueError:
        return None


def _missing_date() -> AwsFault:
    return AwsFault(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.")


def _unsupported_authorization(header: str) -> AwsFault:
    kind, space, _ = header.partition(" ")
    if kind in ("AWS", _ECDSA):
        return _unsupported_mechanism()
    if not space:
        message, value = "Authorization header is invalid -- one and only one ' ' (space) required.", header
    else:
        message, value = "Unsupported Authorization Type", kind
    return AwsFault(400, "InvalidArgument", message, ArgumentName="Authorization", ArgumentValue=value[:200])


def _unsupported_mechanism() -> AwsFault:
    return AwsFault(
        400,
        "InvalidRequest",
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    )


def _two_mechanisms() -> AwsFault:
    return AwsFault(
        400,
        "InvalidArgument",
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or"
        " the Authorization header should be specified",
        ArgumentName="Authorization",
    )


def _query_fault(message: str) -> AwsFault:
    return AwsFault(400, "AuthorizationQueryParametersError", message)


def _hex_bytes(text: str) -> str:
    """The bytes of a text in hexadecimal, which shows invisible characters."""
    return text.encode("utf-8", RAW_ERRORS).hex(" ")


def _mismatch(**details: str) -> AwsFault:
    return AwsFault(
        403,
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your key and signing"
        " method.",
        **details,
    )
