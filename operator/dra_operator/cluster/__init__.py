"""The rim: everything that talks to the API server."""
