"""The rim: everything that talks to the API server.

`access` says where it is and as whom we speak, `session` sends requests, `discovery` asks what it serves,
`reflector` brings what there is, `writer` puts decisions onto claims (by `protobuf` where one takes no patch), `events`
tells people.
"""
