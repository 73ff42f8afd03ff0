"""STS at the root path: AssumeRole, GetSessionToken and GetCallerIdentity, as the AWS SDKs call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl

from lakebed.core.access import Principal
from lakebed.core.errors import AccessDenied, InvalidInput, InvalidPolicy, LakebedError, TooLarge
from lakebed.governance.credentials.sessions import TemporaryKey
from lakebed.objects.condition_context import ConditionKeys
from lakebed.objects.model import Caller
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.aws.timestamps import iso_time
from lakebed.wire.http.message import Request, Response

from .errors import render_error
from .payload import read_document
from .xml import escape

_NAMESPACE: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
_VERSION: Final = "2011-06-15"
_MAX_BODY_BYTES: Final = 64 * 1024
_MAX_FIELDS: Final = 500
_UNKNOWN_KEY: Final = frozenset({"InvalidAccessKeyId", "InvalidToken"})
"""S3's codes for unknown keys and invalid tokens, for which STS has one code."""


class SessionIssuer(Protocol):
    """Issues temporary credentials."""

    def issue(
        self,
        principal: Principal,
        *,
        role_arn: str | None = None,
        session_name: str = "",
        policy: bytes | None = None,
        duration_seconds: int = 3600,
        tags: Mapping[str, str] | None = None,
    ) -> TemporaryKey:
        """Issue credentials. Raises InvalidInput, InvalidPolicy, InvalidTag, TooLarge, AccessDenied."""
        ...


class AccountAuthorizer(Protocol):
    """Authorizes actions on resources of the caller's account."""

    async def authorize_account(
        self, caller: Caller, action: str, resource: str, extra: ConditionKeys | None = None
    ) -> None:
        """Authorize an action; `extra` are condition keys of the request. Raises AccessDenied."""
        ...


class SecurityTokenService:
    """Serves STS requests."""

    def __init__(
        self, sessions: SessionIssuer, authorizer: AccountAuthorizer, *, default_seconds: int, max_seconds: int
    ) -> None:
        self._sessions = sessions
        self._authorizer = authorizer
        self._default_seconds = default_seconds
        self._max_seconds = max_seconds

    async def handle(self, request: Request, authenticated: Authenticated, caller: Caller) -> Response:
        """Handle a request with its form in the body or the query."""
        try:
            if caller.principal.is_anonymous:
                # Before the body is read: all actions require credentials.
                raise AwsFault(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
            body = await read_document(request, authenticated, _MAX_BODY_BYTES)
            form = _read_form(body) if body else dict(request.query)
            return await self._dispatch(form, caller, request.request_id)
        except LakebedError as error:
            return _error_response(error, request.request_id)

    async def _dispatch(self, form: Mapping[str, str], caller: Caller, request_id: str) -> Response:
        action, principal = form.get("Action", ""), caller.principal
        if form.get("Version", _VERSION) != _VERSION:
            raise AwsFault(400, "InvalidAction", f"Could not find operation for version {form['Version'][:32]}.")
        if action == "GetCallerIdentity":
            return _caller_identity(principal, request_id)
        if action == "AssumeRole":
            return await self._assume_role(form, caller, request_id)
        if action == "GetSessionToken":
            return await self._session_token(form, caller, request_id)
        raise AwsFault(400, "InvalidAction", f"Could not find operation {action[:64]} for version {_VERSION}")

    async def _assume_role(self, form: Mapping[str, str], caller: Caller, request_id: str) -> Response:
        principal = caller.principal
        role = form.get("RoleArn") or f"arn:aws:iam::{principal.account}:role/{principal.name}"
        name = form.get("RoleSessionName") or "session"
        tags = _tags(form)
        condition_keys: ConditionKeys = {"sts:RoleSessionName": name}
        if tags:
            condition_keys["aws:TagKeys"] = tuple(tags)
            condition_keys |= {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        await self._authorizer.authorize_account(caller, "sts:AssumeRole", role, condition_keys)
        if tags:
            await self._authorizer.authorize_account(caller, "sts:TagSession", role, condition_keys)
        key = self._sessions.issue(
            principal,
            role_arn=role,
            session_name=name,
            policy=form["Policy"].encode() if form.get("Policy") else None,
            duration_seconds=self._duration(form),
            tags=tags,
        )
        session_arn = key.principal.caller_arn
        result = (
            f"<AssumedRoleUser><Arn>{escape(session_arn)}</Arn>"
            f"<AssumedRoleId>{escape(key.principal.user_id)}:{escape(name)}</AssumedRoleId></AssumedRoleUser>"
            f"{_credentials(key)}"
        )
        return _result_response("AssumeRole", result, request_id)

    async def _session_token(self, form: Mapping[str, str], caller: Caller, request_id: str) -> Response:
        await self._authorizer.authorize_account(caller, "sts:GetSessionToken", "*")
        key = self._sessions.issue(caller.principal, duration_seconds=self._duration(form))
        return _result_response("GetSessionToken", _credentials(key), request_id)

    def _duration(self, form: Mapping[str, str]) -> int:
        text = form.get("DurationSeconds")
        if not text:
            return self._default_seconds
        seconds = whole_number(text)
        if seconds is None:
            raise InvalidInput("DurationSeconds must be an integer", argument="DurationSeconds", value=text[:32])
        if seconds > self._max_seconds:
            raise InvalidInput(
                f"The requested DurationSeconds exceeds the MaxSessionDuration. maximum={self._max_seconds}",
                argument="DurationSeconds",
                value=text,
            )
        return seconds


def authentication_error(fault: AwsFault, request_id: str) -> Response:
    """The response to a request whose authentication failed, as an error document of STS."""
    if fault.code in _UNKNOWN_KEY:
        fault = AwsFault(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
    return _error_response(fault, request_id)


def _read_form(body: bytes) -> dict[str, str]:
    """Parse the fields of a form. Raises AwsFault."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise AwsFault(400, "ValidationError", f"A request can have at most {_MAX_FIELDS} parameters.") from error


def _tags(form: Mapping[str, str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    number = 1
    while (name := form.get(f"Tags.member.{number}.Key")) is not None:
        tags[name] = form.get(f"Tags.member.{number}.Value", "")
        number += 1
    return tags


def _caller_identity(principal: Principal, request_id: str) -> Response:
    result = (
        f"<Arn>{escape(principal.caller_arn)}</Arn><UserId>{escape(principal.user_id or principal.name)}</UserId>"
        f"<Account>{principal.account}</Account>"
    )
    return _result_response("GetCallerIdentity", result, request_id)


def _credentials(key: TemporaryKey) -> str:
    return (
        f"<Credentials><AccessKeyId>{key.access_key_id}</AccessKeyId>"
        f"<SecretAccessKey>{escape(key.secret.reveal())}</SecretAccessKey>"
        f"<SessionToken>{escape(key.session_token.reveal())}</SessionToken>"
        f"<Expiration>{iso_time(key.session.expires_ms)}</Expiration></Credentials>"
    )


def _result_response(action: str, result: str, request_id: str) -> Response:
    body = (
        f'<{action}Response xmlns="{_NAMESPACE}"><{action}Result>{result}</{action}Result>'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(200, [("Content-Type", "text/xml")], body.encode())


def _error_response(error: LakebedError, request_id: str) -> Response:
    """The response to a failed request, with the error codes of STS."""
    if isinstance(error, AwsFault):
        status, code = error.status, error.code
    elif isinstance(error, AccessDenied):
        status, code = 403, "AccessDenied"
    elif isinstance(error, InvalidPolicy):
        status, code = 400, "MalformedPolicyDocument"
    elif isinstance(error, TooLarge):
        status, code = 400, "PackedPolicyTooLarge"
    elif isinstance(error, InvalidInput):
        status, code = 400, "ValidationError"
    else:
        rendered = render_error(error)
        status, code = rendered.status, rendered.code
    kind = "Sender" if status < 500 else "Receiver"
    body = (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>{kind}</Type><Code>{code}</Code>'
        f"<Message>{escape(str(error))}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return Response(status, [("Content-Type", "text/xml")], body.encode())
