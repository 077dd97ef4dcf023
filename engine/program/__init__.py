"""The program as data: the file of one or several graphs, and their digests."""

from engine.program.reader import load, opened, opened_entries
from engine.program.versions import FORMAT, VERSION
from engine.program.writer import digest, document_of, save, save_entries, structure_digest, tensor_name

__all__ = [
    "FORMAT",
    "VERSION",
    "digest",
    "document_of",
    "load",
    "opened",
    "opened_entries",
    "save",
    "save_entries",
    "structure_digest",
    "tensor_name",
]
