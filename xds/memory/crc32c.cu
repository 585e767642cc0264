// CRC32C in GPU memory: each thread sums one piece, and the sums, which are few, go to memory of the host.
#include "xds/memory/crc32c_pieces.h"

using namespace fabric::xds::memory;

extern "C" __global__ void xds_crc32c(const unsigned char* data, unsigned long long length, uint32_t* sums) {
    __shared__ uint32_t table[crc32c_table_words];
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) table[i] = crc32c_table_entry(i);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x)
        for (uint32_t number = 1; number < 4; ++number)
            table[256 * number + i] = crc32c_next_entry(table, table[256 * (number - 1) + i]);
    __syncthreads();
    unsigned long long piece = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
    unsigned long long start = piece * crc32c_piece;
    if (start >= length) return;
    size_t left = length - start;
    sums[piece] = crc32c_by_table(table, data + start, left < crc32c_piece ? left : crc32c_piece);
}
