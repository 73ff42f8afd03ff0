"""Being written."""
from lakebed.wire.http.message import Response
async def answer_preflight(services, request, bucket):  # type: ignore
    return Response(403)
async def cors_headers(services, request, bucket):  # type: ignore
    return []
