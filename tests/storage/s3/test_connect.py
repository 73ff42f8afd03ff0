"""From options to a store that is ready."""

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
from tests.fixtures.scripted_http import Answer, Asked, scripted_server

from ..credentials.fakes import machine
from .scripted_s3 import refusal, written

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
async def test_region_is_the_options_or_the_environments_or_the_one_that_all_take(
    region: str | None, environ: dict[str, str], used: str
) -> None:
    around = machine({**ENVIRON, **environ})
    with scripted_server(lambda _: written()) as server:
        storage = await connect_s3(options(server.url, region=region), around, capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert f"/{used}/s3/aws4_request" in server.asked[0].headers["authorization"]
    assert "Credential=FROMENV/" in server.asked[0].headers["authorization"]


async def test_aws_without_a_region_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"^region: missing"):
        await connect_s3(S3Options("bucket"), machine())


async def test_keys_of_the_options_go_before_the_environment() -> None:
    with scripted_server(lambda _: written()) as server:
        inline = S3Options(
            "bucket", endpoint=server.url, allow_http=True, access_key_id="INLINE", secret_access_key=Secret("s")
        )
        storage = await connect_s3(inline, machine(ENVIRON), capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert "Credential=INLINE/" in server.asked[0].headers["authorization"]


@pytest.mark.parametrize(
    ("path_style", "address"),
    [(None, "http://s3.invalid/bucket/k"), (False, "http://bucket.s3.invalid/k"), (True, "http://s3.invalid/bucket/k")],
)
async def test_bucket_is_in_the_path_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, path_style: bool | None, address: str
) -> None:
    with scripted_server(lambda _: written()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)  # a proxy is asked for whole addresses, which can be looked at
        chosen = options("http://s3.invalid", path_style=path_style)
        storage = await connect_s3(chosen, machine(ENVIRON), capabilities=CONDITIONS_TRUSTED)
        await storage.put(Key("k"), b"")
        await storage.close()
    assert proxy.asked[0].path == address


def ignores_conditions(asked: Asked) -> Answer:
    """A store that answers success to everything."""
    return Answer(204) if asked.method == "DELETE" else written()


async def test_store_that_ignores_conditions_is_refused_and_nothing_is_left_running() -> None:
    with scripted_server(ignores_conditions) as server:
        with pytest.raises(NotSupported, match="If-None-Match is ignored"):
            await connect_s3(options(server.url), machine(ENVIRON))
        assert [asked.method for asked in server.asked] == ["PUT", "PUT", "DELETE"]
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("s3")] == []


def bare_etags_only(state: dict[str, str]) -> Callable[[Asked], Answer]:
    """A store of one object that matches ETags only without quotes."""

    def script(asked: Asked) -> Answer:
        if asked.path.endswith("?uploads"):
            return Answer(200, b"<R><UploadId>U</UploadId></R>")
        if asked.method == "DELETE":
            return Answer(204)
        if asked.headers.get("if-none-match") == "*" and "etag" in state:
            return refusal(412, "PreconditionFailed")
        if "if-match" in asked.headers and asked.headers["if-match"] != state.get("etag"):
            return refusal(412, "PreconditionFailed")
        if "partNumber" in asked.path:
            return written("part")
        state["etag"] = f"e{int(state.get('etag', 'e0')[1:]) + 1}"
        if asked.method == "POST":
            return Answer(200, f"<R><ETag>{state['etag']}</ETag></R>".encode())
        return written(state["etag"])

    return script


async def test_store_that_takes_bare_etags_only_is_spoken_to_so() -> None:
    with scripted_server(bare_etags_only({})) as server:
        storage = await connect_s3(options(server.url), machine(ENVIRON))
        assert storage.capabilities == Capabilities(True, True, ETagStyle.BARE)
        await storage.close()
    assert {asked.headers["if-match"] for asked in server.asked if "if-match" in asked.headers} == {'"e1"', "e1", "e2"}


async def test_missing_library_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingExtra, match=r"lakebed\[s3\]"):
        await connect_s3(S3Options("bucket", region="us-east-1"), machine())


@pytest.mark.slow
def test_package_loads_without_the_library() -> None:
    code = "import sys; sys.modules['botocore'] = None; import lakebed.storage.s3"
    subprocess.run([sys.executable, "-c", code], check=True)
