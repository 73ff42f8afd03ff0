"""Opening an S3 store from its options."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from lakebed.core.errors import InvalidSetting, MissingExtra, NotSupported
from lakebed.core.secrets import Secret
from lakebed.storage.probe import CONDITIONS_TRUSTED, Capabilities, ETagStyle
from lakebed.storage.s3 import S3Options, connect_s3
from lakebed.storage.seam import Key
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server

from ..credentials.fakes import machine
from .scripted_s3 import error, written

ENVIRON = {"AWS_ACCESS_KEY_ID": "FROMENV", "AWS_SECRET_ACCESS_KEY": "s"}


def options(url: str, *, region: str | None = None, path_style: bool | None = None) -> S3Options:
    return S3Options("bucket", region=region, endpoint=url, path_style=path_style, allow_http=True)


@pytest.mark.parametrize(
    ("region", "environ", "used"),
    [
        ("us-west-2", {"AWS_REGION": "eu-central-1"}, "us-west-2"),
        (None, {"AWS_REGION": "eu-central-1"}, "eu-central-1"),
        (None, {}, "us-east-1"),
    ],
)
async def test_region_comes_from_options_environment_or_default(
    region: str | None, environ: dict[str, str], used: str
) -> None:
    around = machine({**ENVIRON, **environ})
    with scripted_server(lambda _: written()) as server:
        storage = await connect_s3(options(server.url, region=region), around, capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert f"/{used}/s3/aws4_request" in server.requests[0].headers["authorization"]
    assert "Credential=FROMENV/" in server.requests[0].headers["authorization"]


async def test_aws_without_a_region_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^region: missing"):
        await connect_s3(S3Options("bucket"), machine())


async def test_keys_of_the_options_take_precedence_over_the_environment() -> None:
    with scripted_server(lambda _: written()) as server:
        inline = S3Options(
            "bucket", endpoint=server.url, allow_http=True, access_key_id="INLINE", secret_access_key=Secret("s")
        )
        storage = await connect_s3(inline, machine(ENVIRON), capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert "Credential=INLINE/" in server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    ("path_style", "address"),
    [(None, "http://s3.invalid/bucket/k"), (False, "http://bucket.s3.invalid/k"), (True, "http://s3.invalid/bucket/k")],
)
async def test_bucket_is_in_the_path_or_the_host_by_option(
    monkeypatch: pytest.MonkeyPatch, path_style: bool | None, address: str
) -> None:
    with scripted_server(lambda _: written()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)  # a proxy receives absolute URLs, which can be inspected
        chosen = options("http://s3.invalid", path_style=path_style)
        storage = await connect_s3(chosen, machine(ENVIRON), capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert proxy.requests[0].path == address


def ignores_conditions(request: ScriptedRequest) -> ScriptedResponse:
    """A store that reports success for everything."""
    return ScriptedResponse(204) if request.method == "DELETE" else written()


async def test_store_that_ignores_conditions_is_rejected_and_closed() -> None:
    with scripted_server(ignores_conditions) as server:
        with pytest.raises(NotSupported, match="If-None-Match is ignored"):
            await connect_s3(options(server.url), machine(ENVIRON))
        assert [request.method for request in server.requests] == ["PUT", "PUT", "DELETE"]
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("s3")] == []


def bare_etags_only(state: dict[str, str]) -> Callable[[ScriptedRequest], ScriptedResponse]:
    """A store of one object that matches only ETags without quotes."""

    def script(request: ScriptedRequest) -> ScriptedResponse:
        if request.path.endswith("?uploads"):
            return ScriptedResponse(200, b"<R><UploadId>U</UploadId></R>")
        if request.method == "DELETE":
            return ScriptedResponse(204)
        if request.headers.get("if-none-match") == "*" and "etag" in state:
            return error(412, "PreconditionFailed")
        if "if-match" in request.headers and request.headers["if-match"] != state.get("etag"):
            return error(412, "PreconditionFailed")
        if "partNumber" in request.path:
            return written("part")
        state["etag"] = f"e{int(state.get('etag', 'e0')[1:]) + 1}"
        if request.method == "POST":
            return ScriptedResponse(200, f"<R><ETag>{state['etag']}</ETag></R>".encode())
        return written(state["etag"])

    return script


async def test_store_with_bare_etags_gets_bare_etags() -> None:
    with scripted_server(bare_etags_only({})) as server:
        storage = await connect_s3(options(server.url), machine(ENVIRON))
        assert storage.capabilities == Capabilities(True, True, ETagStyle.BARE)
        await storage.close()
    assert {request.headers["if-match"] for request in server.requests if "if-match" in request.headers} == {
        '"e1"',
        "e1",
        "e2",
    }


async def test_error_for_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingExtra, match=r"lakebed\[s3\]"):
        await connect_s3(S3Options("bucket", region="us-east-1"), machine())


@pytest.mark.slow
def test_package_loads_without_the_library() -> None:
    code = "import sys; sys.modules['botocore'] = None; import lakebed.storage.s3"
    subprocess.run([sys.executable, "-c", code], check=True)
