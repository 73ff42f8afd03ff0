"""STS at the server's root: AssumeRole, GetSessionToken, GetCallerIdentity, as the AWS SDKs call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl

from lakebed.core.access import Principal, Session
from lakebed.core.errors import AccessDenied, InvalidInput, InvalidPolicy, LakebedError, TooLarge
from lakebed.core.secrets import Secret
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
"""What S3 says of keys and tokens that are not good: STS has one code for both."""


class IssuedKey(Protocol):
    """Temporary keys, as the sessions service makes them."""

    @property
    def access_key_id(self) -> str:
        """The public half."""
        ...

    @property
    def secret(self) -> Secret:
        """The secret half."""
        ...

    @property
    def session_token(self) -> Secret:
        """What goes with every request."""
        ...

    @property
    def principal(self) -> Principal:
        """Who calls with them."""
        ...

    @property
    def session(self) -> Session:
        """Until when they are good, and what they may not."""
        ...


class SessionIssuer(Protocol):
    """Makes temporary keys."""

    def issue(
        self,
        principal: Principal,
        *,
        role_arn: str | None = None,
        session_name: str = "",
        policy: bytes | None = None,
        duration_seconds: int = 3600,
        tags: Mapping[str, str] | None = None,
    ) -> IssuedKey:
        """Raises InvalidInput, InvalidPolicy, InvalidTag, TooLarge, AccessDenied."""
        ...


class AccountAuthorizer(Protocol):
    """Asks the one authorizer about what is of the caller's own account."""

    async def authorize_account(
        self, caller: Caller, action: str, resource: str, extra: ConditionKeys | None = None
    ) -> None:
        """Return if allowed, with all that policies may ask of the request. Raises AccessDenied."""
        ...


class SecurityTokenService:
    """Answers STS requests."""

    def __init__(
        self, sessions: SessionIssuer, gate: AccountAuthorizer, *, default_seconds: int, max_seconds: int
    ) -> None:
        self._sessions = sessions
        self._gate = gate
        self._default_seconds = default_seconds
        self._max_seconds = max_seconds

    async def answer(self, request: Request, who: Authenticated, caller: Caller) -> Response:
        """One STS call: a form in the body or the query. `caller` says what policies may ask of the request."""
        try:
            if caller.principal.is_anonymous:
                # Before the body is read: no action is open to callers without credentials.
                raise AwsFault(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
            body = await read_document(request, who, _MAX_BODY_BYTES)
            form = _read_form(body) if body else dict(request.query)
            return await self._dispatch(form, caller, request.request_id)
        except LakebedError as error:
            return _error(error, request.request_id)

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
        await self._gate.authorize_account(caller, "sts:AssumeRole", role, condition_keys)
        if tags:
            await self._gate.authorize_account(caller, "sts:TagSession", role, condition_keys)
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
        return _answer("AssumeRole", result, request_id)

    async def _session_token(self, form: Mapping[str, str], caller: Caller, request_id: str) -> Response:
        await self._gate.authorize_account(caller, "sts:GetSessionToken", "*")
        key = self._sessions.issue(caller.principal, duration_seconds=self._duration(form))
        return _answer("GetSessionToken", _credentials(key), request_id)

    def _duration(self, form: Mapping[str, str]) -> int:
        text = form.get("DurationSeconds")
        if not text:
            return self._default_seconds
        seconds = whole_number(text)
        if seconds is None:
            raise InvalidInput("a duration is a number of seconds", argument="DurationSeconds", value=text[:32])
        if seconds > self._max_seconds:
            raise InvalidInput(
                f"The requested DurationSeconds exceeds the MaxSessionDuration. maximum={self._max_seconds}",
                argument="DurationSeconds",
                value=text,
            )
        return seconds


def refuse_unknown(fault: AwsFault, request_id: str) -> Response:
    """The answer to a request that was not authenticated, in the document that clients of STS read."""
    if fault.code in _UNKNOWN_KEY:
        fault = AwsFault(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
    return _error(fault, request_id)


def _read_form(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises AwsFault."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise AwsFault(400, "ValidationError", f"A request has at most {_MAX_FIELDS} parameters.") from error


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
    return _answer("GetCallerIdentity", result, request_id)


def _credentials(key: IssuedKey) -> str:
    return (
        f"<Credentials><AccessKeyId>{key.access_key_id}</AccessKeyId>"
        f"<SecretAccessKey>{escape(key.secret.reveal())}</SecretAccessKey>"
        f"<SessionToken>{escape(key.session_token.reveal())}</SessionToken>"
        f"<Expiration>{iso_time(key.session.expires_ms)}</Expiration></Credentials>"
    )


def _answer(action: str, result: str, request_id: str) -> Response:
    body = (
        f'<{action}Response xmlns="{_NAMESPACE}"><{action}Result>{result}</{action}Result>'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(200, [("Content-Type", "text/xml")], body.encode())


def _error(error: LakebedError, request_id: str) -> Response:
    """STS has an error document and codes of its own."""
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
