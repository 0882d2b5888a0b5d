"""A client of one OpenAI-compatible server: every request ends in a reply or a named failure."""

from verify.client.asking import Client, request_body
from verify.client.failures import Again, RequestError
from verify.client.replies import Reply

__all__ = ["Again", "Client", "Reply", "RequestError", "request_body"]
