"""File extents from a storage node into memory: of Python's buffers, of CUDA arrays, of DLPack tensors.

    import xds
    with xds.Context("storage-1:20053", verify=True) as context, context.open("data/part-0") as file:
        memory = bytearray(file.size)
        file.read_into(memory)

Errors are OSError with the errno of the cause and the library's text. Every call that may wait lets other threads run.
"""
from ._xds import Context, File, SimMemory, Stream, Tensor, Transfer, __version__, itemsize

__all__ = ["Context", "File", "SimMemory", "Stream", "Tensor", "Transfer", "itemsize", "__version__"]
