from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import encode_multipart_formdata

from lakebed.core.errors import Incomplete
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.body import RequestBody
from lakebed.wire.s3.form import MAX_FIELDS, MAX_FORM_BYTES, FormReader, PostForm

BOUNDARY = "b--x"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
FILE = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain'


def part(head: str, body: bytes) -> bytes:
    return f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + body + b"\r\n"


def field(name: str, value: str) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', value.encode())


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def body_of(data: bytes, cuts: Iterable[int] = ()) -> RequestBody:
    """A received body, in pieces that end at the cuts."""
    body = RequestBody(None, chunked=True)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for index, (start, end) in enumerate(pairwise(edges)):
        piece = data[start:end]
        body.push(memoryview(bytearray(piece)) if index % 2 else piece)
    body.finish()
    return body


async def read(
    data: bytes, cuts: Iterable[int] = (), content_type: str = CONTENT_TYPE
) -> tuple[PostForm, bytes | None]:
    form = await FormReader(content_type, body_of(data, cuts)).read()
    if form.file is None:
        return form, None
    pieces = []
    while (piece := await form.file.next_chunk()) is not None:
        assert len(piece) > 0
        pieces.append(bytes(piece))
    assert await form.file.next_chunk() is None
    return form, b"".join(pieces)


async def fault_of(data: bytes, content_type: str = CONTENT_TYPE) -> AwsFault:
    with pytest.raises(AwsFault) as caught:
        await read(data, content_type=content_type)
    return caught.value


cut_lists = st.lists(st.integers(0, 5000), max_size=12)
names = st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["C"]), min_size=1).filter(
    lambda name: name.lower() != "file"
)
field_lists = st.lists(st.tuples(names, st.text(max_size=40)), max_size=4, unique_by=lambda pair: pair[0].lower())
DELIMITER = f"\r\n--{BOUNDARY}".encode()
contents = (
    st.lists(
        st.sampled_from([b"\r", b"\n", b"\r\n", b"-", b"\r\n--", b"\r\n--b", b"\r\n--b--", b"x", b"\0"]), max_size=30
    )
    .map(b"".join)
    .filter(lambda data: DELIMITER not in b"\r\n" + data + b"\r\n--")
)
"""Files of byte sequences that occur in boundaries."""


@pytest.mark.slow
@given(field_lists, contents | st.binary(max_size=300), st.booleans(), cut_lists)
async def test_body_split_anywhere_parses_to_the_same_form(
    fields: list[tuple[str, str]], content: bytes, has_more: bool, cuts: list[int]
) -> None:
    after = [field("submit", "Upload"), part(FILE, b"another")] if has_more else []
    data = whole(*(field(name, value) for name, value in fields), part(FILE, content), *after)
    form, got = await read(data, cuts)
    assert got == content
    assert form.fields == {name.lower(): value for name, value in fields}


@given(contents, st.integers(0, 5000), st.binary(max_size=60), st.integers(0, 60), cut_lists)
async def test_corrupted_form_raises_only_aws_faults(
    content: bytes, at: int, noise: bytes, removed: int, cuts: list[int]
) -> None:
    data = whole(field("key", "k"), part(FILE, content), field("submit", "x"))
    at %= len(data) + 1
    broken = data[:at] + noise + data[at + removed :]
    with suppress(AwsFault):
        await read(broken, cuts)


@given(contents, st.integers(0, 5000))
async def test_truncated_form_is_malformed(content: bytes, at: int) -> None:
    data = whole(field("key", "k"), part(FILE, content)).removesuffix(b"\r\n")
    fault = await fault_of(data[: at % len(data)])
    assert fault.code == "MalformedPOSTRequest"


async def test_disconnect_within_the_file_raises_incomplete() -> None:
    body = RequestBody(10_000)
    body.push(part(FILE, b"abc").removesuffix(b"\r\n"))
    body.abort()
    form = await FormReader(CONTENT_TYPE, body).read()
    assert form.file is not None
    assert await form.file.next_chunk() == b"abc"
    with pytest.raises(Incomplete):
        await form.file.next_chunk()


async def test_file_is_returned_while_the_form_is_received() -> None:
    body = RequestBody(None, chunked=True)
    body.push(field("key", "k") + f"--{BOUNDARY}\r\n{FILE}\r\n\r\n".encode() + b"first\r")
    form = await FormReader(CONTENT_TYPE, body).read()
    assert form.file is not None
    assert form.file.length is None
    assert bytes(await form.file.next_chunk() or b"") == b"first"  # the carriage return could begin a boundary
    body.push(b"second")
    assert bytes(await form.file.next_chunk() or b"") == b"\rsecond"
    body.push(DELIMITER + b"--")
    body.finish()
    assert await form.file.next_chunk() is None


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "a b+c%20", "policy": "eyJ9", "file": ("naïve 文.txt", b"\r\n--\r\n" * 500, "text/plain")},
        {"Key": "grün", "x-amz-meta-a": "", "FILE": "no file name at all"},
    ],
)
async def test_form_of_a_real_client_is_parsed(fields: dict[str, str | tuple[str, bytes, str]]) -> None:
    data, content_type = encode_multipart_formdata(fields)
    form, got = await read(data, content_type=content_type)
    (file,) = (value for name, value in fields.items() if name.lower() == "file")
    assert got == (file[1] if isinstance(file, tuple) else file.encode())
    assert form.file is not None
    assert form.file.filename == (file[0] if isinstance(file, tuple) else "")
    assert form.fields == {name.lower(): value for name, value in fields.items() if name.lower() != "file"}


async def test_form_without_a_file_has_its_fields() -> None:
    form, got = await read(whole(field("key", "k"), field("x-ignore-me", "1")))
    assert got is None
    assert form.fields == {"key": "k", "x-ignore-me": "1"}


@pytest.mark.parametrize(
    ("parameters", "filename"),
    [
        ('filename="a.txt"', "a.txt"),
        ("filename=a.txt", "a.txt"),
        (r'filename="C:\Users\me\a.txt"', "a.txt"),
        ('filename="/home/me/a.txt"', "a.txt"),
        (r'filename="a \"b\" c.txt"', 'a "b" c.txt'),
        ('filename="a;b=c.txt"', "a;b=c.txt"),
        ("filename=\"x\"; filename*=UTF-8''gr%C3%BCn%20.txt", "grün .txt"),
        ("filename*=utf-8'de'gr%C3%BCn.txt", "grün.txt"),
        ("filename=\"x\"; filename*=ISO-8859-1''gr%FCn", "x"),
        ('filename=""', ""),
        ('filename="../../"', ""),
    ],
)
async def test_filename_is_reduced_to_its_base_name(parameters: str, filename: str) -> None:
    form, _ = await read(whole(part(f'Content-Disposition: form-data; name="file"; {parameters}', b"x")))
    assert form.file is not None
    assert form.file.filename == filename


@pytest.mark.parametrize(
    "content_type",
    [
        f'multipart/form-data; boundary="{BOUNDARY}"',
        f"Multipart/Form-Data;charset=utf-8;BOUNDARY={BOUNDARY}",
        f"multipart/form-data ; boundary={BOUNDARY} ;",
    ],
)
async def test_boundary_parameter_is_parsed_in_all_notations(content_type: str) -> None:
    _, got = await read(whole(part(FILE, b"x")), content_type=content_type)
    assert got == b"x"


async def test_preamble_and_epilogue_are_ignored() -> None:
    data = b"preamble\r\n" + whole(part(FILE, b"x")) + b"epilogue\r\n" + part(FILE, b"y")
    assert (await read(data))[1] == b"x"


async def test_boundaries_may_be_followed_by_white_space() -> None:
    data = whole(field("key", "k"), part(FILE, b"x")).replace(b"--b--x\r\n", b"--b--x \t\r\n")
    assert (await read(data))[1] == b"x"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"key=value&file=x", id="another kind of form"),
        pytest.param(whole(part("Content-Type: text/plain", b"x")), id="no disposition"),
        pytest.param(whole(part("Content-Disposition: attachment; name=key", b"x")), id="another disposition"),
        pytest.param(whole(part("Content-Disposition: form-data", b"x")), id="no name"),
        pytest.param(whole(part('Content-Disposition: form-data; name=""', b"x")), id="empty name"),
        pytest.param(whole(part('Content-Disposition: form-data; name="a', b"x")), id="open quote"),
        pytest.param(whole(part("Content-Disposition: form-data; name=a; name=b", b"x")), id="two names"),
        pytest.param(whole(part("Content-Disposition: form-data; name=a\r\n folded", b"x")), id="folded header"),
        pytest.param(whole(part("no colon", b"x")), id="not a header"),
        pytest.param(
            whole(part("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64", b"eA==")),
            id="transfer encoding",
        ),
        pytest.param(whole(part("Content-Disposition: form-data; name=a", b"\xff")), id="value not UTF-8"),
        pytest.param(
            whole(part("Content-Disposition: form-data; name=file; filename*=UTF-8''%FF", b"x")), id="name not UTF-8"
        ),
        pytest.param(f"--{BOUNDARY}more\r\n{FILE}\r\n\r\nx".encode() + DELIMITER + b"--", id="longer boundary"),
        pytest.param(part(FILE, b"x") + f"--{BOUNDARY}".encode(), id="last boundary without its end"),
        pytest.param(part(FILE, b"x") + f"--{BOUNDARY}more--\r\n".encode(), id="longer last boundary"),
    ],
)
async def test_invalid_form_is_malformed(data: bytes) -> None:
    fault = await fault_of(data)
    assert (fault.status, fault.code) == (400, "MalformedPOSTRequest")


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'b' * 71}"],
)
async def test_content_type_without_a_boundary_is_malformed(content_type: str) -> None:
    assert (await fault_of(whole(), content_type)).code == "MalformedPOSTRequest"


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "multipart/mixed; boundary=b--x"])
async def test_other_content_types_fail_the_precondition(content_type: str) -> None:
    fault = await fault_of(whole(), content_type)
    assert (fault.status, fault.code) == (412, "PreconditionFailed")


async def test_repeated_field_is_rejected_by_name() -> None:
    fault = await fault_of(whole(field("key", "a"), field("KEY", "b"), part(FILE, b"x")))
    assert (fault.code, fault.details) == ("InvalidArgument", {"ArgumentName": "key"})


def form_of_size(size: int) -> bytes:
    """A form with `size` bytes before the content of its file."""
    head = f"--{BOUNDARY}\r\n{FILE}\r\n\r\n".encode()
    filler = size - len(head) - len(field("a", ""))
    return field("a", "v" * filler) + head + b"content" + DELIMITER + b"--"


@given(cut_lists)
async def test_limit_of_the_fields_is_independent_of_the_split(cuts: Sequence[int]) -> None:
    _, got = await read(form_of_size(MAX_FORM_BYTES), [cut * 5 for cut in cuts])
    assert got == b"content"
    with pytest.raises(AwsFault) as caught:
        await read(form_of_size(MAX_FORM_BYTES + 1), [cut * 5 for cut in cuts])
    assert caught.value.code == "MaxPostPreDataLengthExceededError"


async def test_endless_field_is_rejected_before_it_is_received() -> None:
    body = RequestBody(None, chunked=True)
    body.push(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n'.encode() + b"v" * 2 * MAX_FORM_BYTES)
    with pytest.raises(AwsFault) as caught:
        await FormReader(CONTENT_TYPE, body).read()
    assert caught.value.code == "MaxPostPreDataLengthExceededError"


async def test_more_than_a_hundred_fields_are_rejected() -> None:
    fields = [field(f"f{number}", "") for number in range(MAX_FIELDS + 1)]
    form, _ = await read(whole(*fields[:MAX_FIELDS], part(FILE, b"x")))
    assert len(form.fields) == MAX_FIELDS
    assert (await fault_of(whole(*fields, part(FILE, b"x")))).code == "MaxPostPreDataLengthExceededError"
