"""Being written."""
from lakebed.wire.http.message import Response
async def post_object(services, request):  # type: ignore
    return Response(501)
