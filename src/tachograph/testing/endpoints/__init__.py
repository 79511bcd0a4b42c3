"""The protocols that the model server speaks, one module per provider's endpoint.

Each reads a request's JSON into a `ModelRequest` and writes an answer's pieces as that provider's JSON or events. They
write what the providers' own SDKs accept today; they are test equipment, not a specification.
"""
