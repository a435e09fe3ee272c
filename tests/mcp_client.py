"""The client of the package `mcp`, which asks `kubectl dra mcp` as an assistant's program does."""

import contextlib

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@contextlib.asynccontextmanager
async def connected(command, *arguments, environment=None):
    """Yield a session with a server that is a process."""
    server = StdioServerParameters(command=str(command), args=list(map(str, arguments)), env=environment)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session
