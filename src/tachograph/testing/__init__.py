"""What Tachograph is tested with, shipped so that yours can be tested with it too.

- `scripted`: a real HTTP/1.1 server on loopback that misbehaves exactly as told, byte by byte.
- `model_server`: the same server, speaking four model providers' protocols for any brain.
- `scripted_brain`, `local_model`: two brains, rules written in advance and a small real model.
- `strategies`: Hypothesis strategies for what travels between a client and such a server.
- `refund`: an agent with a known cause of failure, for demonstrations and tests.

Import the modules, not this package: each costs only what it needs. Nothing here knows how recording or replaying
works; a server that did could not show that they are right.
"""
