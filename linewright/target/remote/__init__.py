"""Other machines as targets: a copy of the static probe runs there, over ssh or behind a command such as
`docker exec -i`."""
