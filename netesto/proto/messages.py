"""The messages of agent.proto, made from its descriptor. messages.pyi has their types.

Code that protoc generates fits only the version of protobuf that it was made for, and later ones;
every version reads a descriptor.
"""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# Made by `make proto`.
[_FILE] = FileDescriptorSet.FromString(Path(__file__).with_name("agent.desc").read_bytes()).file

_POOL = DescriptorPool()
_POOL.AddSerializedFile(_FILE.SerializeToString())
DESCRIPTOR = _POOL.FindFileByName(_FILE.name)

globals().update(
    {name: GetMessageClass(each) for name, each in DESCRIPTOR.message_types_by_name.items()}
)
