"""The methods of agent.proto as its descriptor lists them: calls at one end, handlers at the
other."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from netesto.proto import messages as pb
from netesto.transport import codec

_SERVICE = pb.DESCRIPTOR.services_by_name["Agent"]

# gRPC imports a module of its own with the first of these: here, the agents of a lab share it.
grpc.method_handlers_generic_handler(_SERVICE.full_name, {})

# The callables of methods by name; they take a message, `timeout` and `metadata`.
Calls: TypeAlias = Mapping[str, Any]


def calls(wire: grpc.aio.Channel) -> Calls:
    """The methods of the agent at the end of a channel."""

    def call(name: str, request: Any, reply: Any, *, is_stream: bool) -> Any:
        make: Any = wire.unary_stream if is_stream else wire.unary_unary
        return make(
            f"/{_SERVICE.full_name}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=reply.FromString,
        )

    return {
        each.name: call(
            each.name,
            GetMessageClass(each.input_type),
            GetMessageClass(each.output_type),
            is_stream=each.server_streaming,
        )
        for each in _SERVICE.methods
    }


def serve(servicer: object, server: grpc.aio.Server) -> None:
    """Make a server answer with the methods of `servicer`, which return messages or their values;
    those that it lacks are unknown."""
    handlers = {
        each.name: (
            grpc.unary_stream_rpc_method_handler
            if each.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )(
            getattr(servicer, each.name),
            request_deserializer=GetMessageClass(each.input_type).FromString,
            response_serializer=partial(_serialized, GetMessageClass(each.output_type)),
        )
        for each in _SERVICE.methods
        if hasattr(servicer, each.name)
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),)
    )


def _serialized(kind: type[Message], reply: object) -> bytes:
    """The reply of a method as bytes; None is a message without fields."""
    message = reply if isinstance(reply, Message) else codec.encode(kind, reply)
    return message.SerializeToString()
