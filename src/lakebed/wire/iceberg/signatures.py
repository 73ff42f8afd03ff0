"""Signs a request that somebody else will send to the object store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from lakebed.core.secrets import Secret
from lakebed.wire.aws import sigv4
from lakebed.wire.aws.store_address import StoreRequest

_SERVICE: Final = "s3"


def signature_headers(
    method: str,
    wanted: StoreRequest,
    headers: Mapping[str, str],
    *,
    access_key_id: str,
    secret: Secret,
    session_token: Secret,
    region: str,
    now_ms: int,
) -> dict[str, str]:
    """The headers that make the request a signed one, by SigV4 in its header, with temporary keys.

    `headers` are those to be signed besides, by name in lower case; what is said of the body is among them.
    """
    amz_date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"host": wanted.host, "x-amz-date": amz_date, "x-amz-security-token": session_token.reveal()}
    everything = {**headers, **added}
    names = tuple(sorted(everything))
    scope = sigv4.CredentialScope(access_key_id, amz_date[:8], region, _SERVICE)
    canonical = sigv4.canonical_request(
        method,
        # As it will be sent: S3 signs a path encoded once, which it is already.
        wanted.raw_path,
        sigv4.canonical_query(wanted.raw_query),
        sigv4.canonical_headers(everything, names),
        ";".join(names),
        headers["x-amz-content-sha256"],
    )
    signature = sigv4.SigningKey(secret, scope).sign(sigv4.string_to_sign(canonical, amz_date, scope.text))
    return {
        "Authorization": f"{sigv4.ALGORITHM} Credential={access_key_id}/{scope.text}, SignedHeaders={';'.join(names)},"
        f" Signature={signature}",
        "Host": wanted.host,
        "X-Amz-Date": amz_date,
        "X-Amz-Security-Token": session_token.reveal(),
        "X-Amz-Content-SHA256": headers["x-amz-content-sha256"],
    }
