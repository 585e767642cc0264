// What of the CUDA driver's interface a program of these tests calls itself (CUDA Driver API reference), and what of it
// only the fake driver has.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
using FakeContext = struct FakeContextTag*;
using FakeStream = struct FakeStreamTag*;
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(FakeContext*, int);
int cuCtxSetCurrent(FakeContext);
int cuCtxGetCurrent(FakeContext*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, size_t, FakeStream);
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, size_t, FakeStream);
int cuStreamCreate(FakeStream*, unsigned);
int cuStreamDestroy_v2(FakeStream);
int cuStreamSynchronize(FakeStream);
int cuLaunchHostFunc(FakeStream, void (*)(void*), void*);

// A driver that cannot let streams wait for memory.
void fake_cuda_no_wait_value(bool yes);
// How many kernels were started.
unsigned fake_cuda_kernels(void);
// Streams say that they record a graph.
void fake_cuda_capturing(bool yes);
// What the driver does not do: "dma-buf" says its attribute, "export" fails at the call, "rdma" is GPUDirect RDMA.
void fake_cuda_refuses(const char* what, bool yes);
// Copies to and from pinned memory, and other.
unsigned fake_cuda_pinned_copies(void);
unsigned fake_cuda_pageable_copies(void);
// Pieces of host memory that are pinned now.
size_t fake_cuda_pinned(void);
// Flushes of what a card wrote, and allocations whose copies were ordered with it.
unsigned fake_cuda_flushes(void);
unsigned fake_cuda_ordered(void);
}
