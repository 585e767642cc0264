// A program that uses cuFile as its reference documents it, and knows nothing of XDS but for the simulated
// accelerator's memory, and of CUDA's driver where its memory is that of a GPU. It is built against NVIDIA's cufile.h
// where that is installed, else against our declarations of its interface.
//
// usage: program FOLDER host|sim|cuda; ends with 0 when all is as documented.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/xds/cufile/program_memory.h"

// What the reference says of the layouts, on 64-bit machines.
static_assert(sizeof(CUfileError_t) == 8 && sizeof(CUfileDescr_t) == 24 && sizeof(CUfileIOEvents_t) == 24);
static_assert(offsetof(CUfileDescr_t, handle) == 8 && offsetof(CUfileDescr_t, fs_ops) == 16);
static_assert(sizeof(CUfileDrvProps_t) == 56 && offsetof(CUfileDrvProps_t, fflags) == 32);
static_assert(sizeof(CUfileStatsLevel1_t) == 512 && sizeof(CUfileStatsLevel2_t) == 512 + 512);
static_assert(sizeof(CUfilePerGpuStats_t) == 248 && sizeof(CUfileStatsLevel3_t) == 1024 + 8 + 16 * 248);
static_assert(sizeof(CUfileIOParams_t) == 64 && offsetof(CUfileIOParams_t, u.batch.devPtr_base) == 8 &&
              offsetof(CUfileIOParams_t, u.batch.size) == 32 && offsetof(CUfileIOParams_t, fh) == 40 &&
              offsetof(CUfileIOParams_t, opcode) == 48 && offsetof(CUfileIOParams_t, cookie) == 56);

namespace {

std::string random_bytes(size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

std::string contents(int fd, size_t size) {
    std::string bytes(size, '\0');
    CHECK(pread(fd, bytes.data(), size, 0) == static_cast<ssize_t>(size));
    return bytes;
}

// NVIDIA's header has enumerations for them.
auto size_parameter(int number) { return static_cast<CUFileSizeTConfigParameter_t>(number); }
auto flag_parameter(int number) { return static_cast<CUFileBoolConfigParameter_t>(number); }
auto words_parameter(int number) { return static_cast<CUFileStringConfigParameter_t>(number); }

CUfileHandle_t add(int fd) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    CUfileHandle_t handle = nullptr;
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_SUCCESS);
    return handle;
}

struct Test {
    std::string folder;
    Kind kind;
    // One of CUDA's, or, where there is none, a number that stands for one.
    CUstream stream(unsigned number) const {
        CUstream made = reinterpret_cast<CUstream>(static_cast<uintptr_t>(number));
        if (kind == Kind::cuda) CHECK(gpu().create(&made, number % 2) == 0);
        return made;
    }
    std::string path(const char* name) const { return folder + "/" + name; }
    int file(const char* name, const std::string& bytes) const {
        int fd = open(path(name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666);
        CHECK(fd >= 0);
        CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
        return fd;
    }
    void parameters() const;
    void driver() const;
    void data() const;
    void parts() const;
    void errors() const;
    void in_streams() const;
    void late_values(CUfileHandle_t handle, const Memory& memory, const std::string& bytes) const;
    void batches() const;
    void statistics() const;
    void devices() const;
};

// Before the driver is open.
void Test::parameters() const {
    size_t size = 0;
    CHECK(cuFileSetParameterSizeT(size_parameter(1), 64).err == CU_FILE_SUCCESS);
    CHECK(cuFileGetParameterSizeT(size_parameter(1), &size).err == CU_FILE_SUCCESS && size == 64);
    bool on = false;
    CHECK(cuFileSetParameterBool(flag_parameter(1), true).err == CU_FILE_SUCCESS);
    CHECK(cuFileGetParameterBool(flag_parameter(1), &on).err == CU_FILE_SUCCESS && on);
    char text[8] = "";
    CHECK(cuFileSetParameterString(words_parameter(0), "TRACE").err == CU_FILE_SUCCESS);
    CHECK(cuFileGetParameterString(words_parameter(0), text, sizeof text).err == CU_FILE_SUCCESS &&
          std::string(text) == "TRACE");
    CHECK(cuFileGetParameterString(words_parameter(0), text, 3).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileGetParameterSizeT(size_parameter(99), &size).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileSetParameterSizeT(size_parameter(-1), 1).err == CU_FILE_INVALID_VALUE);
    const size_t sizes[] = {4, 64}, counts[] = {8, 2};
    size_t back[2] = {}, number[2] = {};
    CHECK(cuFileSetParameterPosixPoolSlabArray(sizes, counts, 2).err == CU_FILE_SUCCESS);
    CHECK(cuFileGetParameterPosixPoolSlabArray(back, number, 2).err == CU_FILE_SUCCESS && back[1] == 64 &&
          number[0] == 8);
#ifndef HAVE_NVIDIA_CUFILE /* which of these a header has, depends on its version */
    CHECK(cuFileSetParameterGpuBounceBufferSlabArray(counts, sizes, 2).err == CU_FILE_SUCCESS);
    CHECK(cuFileGetParameterGpuBounceBufferSlabArray(back, number, 2).err == CU_FILE_SUCCESS && back[1] == 2 &&
          number[0] == 4);
    CHECK(cuFileGetParameterGpuBounceBufferSlabArray(back, number, 3).err == CU_FILE_INVALID_VALUE);
    CUfileP2PFlags_t flags = 9;
    CHECK(cuFileDriverGetP2PFlags(CU_FILE_NFS_SUPPORTED, &flags).err == CU_FILE_SUCCESS && flags == 0);
    CHECK(cuFileDriverSetP2PFlags(CU_FILE_NFS_SUPPORTED, CU_FILE_P2P_FLAG_PCI_P2PDMA).err == CU_FILE_SUCCESS);
    CHECK(cuFileDriverGetP2PFlags(CU_FILE_NFS_SUPPORTED, &flags).err == CU_FILE_SUCCESS && flags == 1);
    CHECK(cuFileDriverSetP2PFlags(CU_FILE_MAX_TARGET_TYPES, 1).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileDriverSetP2PFlags(CU_FILE_NFS_SUPPORTED, 32).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileDriverGetP2PFlags(CU_FILE_NFS_SUPPORTED, nullptr).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileExportPCIeTopology(path("topology.json").c_str()).err == CU_FILE_SUCCESS);
    CHECK(access(path("topology.json").c_str(), R_OK) == 0);
    for (const char* nowhere : {"", "/nonexistent/topology.json"})
        CHECK(cuFileExportPCIeTopology(nowhere).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileExportPCIeTopology(nullptr).err == CU_FILE_INVALID_VALUE);
#endif
}

void Test::driver() const {
    CHECK(cuFileUseCount() == 0);
    CHECK(cuFileDriverClose().err == CU_FILE_DRIVER_NOT_INITIALIZED);
    CHECK(cuFileDriverOpen().err == CU_FILE_SUCCESS && cuFileDriverOpen().err == CU_FILE_SUCCESS);
    CHECK(cuFileUseCount() == 2);
    CHECK(cuFileSetParameterSizeT(size_parameter(1), 64).err == CU_FILE_DRIVER_ALREADY_OPEN);
    CHECK(cuFileDriverClose().err == CU_FILE_SUCCESS && cuFileUseCount() == 1);
    CUfileDrvProps_t properties{};
    CHECK(cuFileDriverSetMaxDirectIOSize(8192).err == CU_FILE_SUCCESS);
    CHECK(cuFileDriverSetMaxDirectIOSize(3).err == CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    CHECK(cuFileDriverGetProperties(&properties).err == CU_FILE_SUCCESS);
    CHECK(properties.nvfs.max_direct_io_size == 8192 && properties.max_batch_io_size >= 1);
    CHECK((properties.nvfs.dstatusflags & 1U << CU_FILE_NFS_SUPPORTED) != 0);
    CHECK(cuFileDriverGetProperties(nullptr).err == CU_FILE_INVALID_VALUE);
    int version = 0;
    CHECK(cuFileGetVersion(&version).err == CU_FILE_SUCCESS && version >= 1000);
    CHECK(cuFileDriverClose().err == CU_FILE_SUCCESS && cuFileUseCount() == 0);
}

// Any offset and length, in registered and in other memory; the driver opens by itself.
void Test::data() const {
    std::string bytes = random_bytes(1'200'001, 1);
    int fd = file("data", bytes);
    CUfileHandle_t handle = add(fd);
    CHECK(cuFileUseCount() == 1);
    Memory memory(kind, 2 << 20);
    for (bool registered : {false, true}) {
        if (registered) CHECK(cuFileBufRegister(memory.data(), 2 << 20, 0).err == CU_FILE_SUCCESS);
        for (off_t offset : {0L, 1L, 4095L, 4096L, 1'199'000L, 1'200'001L, 4'000'000L})
            for (size_t size : {size_t{1}, size_t{4096}, size_t{4097}, size_t{1'200'001}})
                for (off_t at : {0L, 1L, 4096L}) {
                    memory.write(std::string(2 << 20, '#'));
                    std::string expected = bytes.substr(std::min<size_t>(offset, bytes.size()), size);
                    CHECK(cuFileRead(handle, memory.data(), size, offset, at) == static_cast<ssize_t>(expected.size()));
                    std::string found = memory.read();
                    CHECK(found == std::string(at, '#') + expected +
                                       std::string((2 << 20) - static_cast<size_t>(at) - expected.size(), '#'));
                }
    }
    CHECK(cuFileBufRegister(memory.data(), 4096, 0).err == CU_FILE_MEMORY_ALREADY_REGISTERED);
    std::string other = random_bytes(1'000'000, 2);
    memory.write("ab" + other);
    CHECK(cuFileWrite(handle, memory.data(), other.size(), 777, 2) == static_cast<ssize_t>(other.size()));
    bytes.replace(777, other.size(), other);
    CHECK(contents(fd, bytes.size()) == bytes);
    CHECK(cuFileBufDeregister(memory.data()).err == CU_FILE_SUCCESS);
    CHECK(cuFileBufDeregister(memory.data()).err == CU_FILE_MEMORY_NOT_REGISTERED);
    cuFileHandleDeregister(handle);
    CHECK(cuFileRead(handle, memory.data(), 1, 0, 0) == -CU_FILE_HANDLE_NOT_REGISTERED);
    close(fd);
}

// Scattered and gathered: parts of any length, one of them empty, up to and past the end of the file.
void Test::parts() const {
    std::string bytes = random_bytes(100'000, 3);
    int fd = file("parts", bytes);
    CUfileHandle_t handle = add(fd);
    Memory memory(kind, 1 << 20);
    char* at = memory.data();
    memory.write(std::string(1 << 20, '#'));
    const CUfileIOVec_t into[] = {{at + 1, 10'000}, {at + 50'000, 0}, {at + 60'000, 1}, {at + 70'000, 200'000}};
    CHECK(cuFileReadv(handle, into, 4, 777, 0) == 100'000 - 777);
    std::string found = memory.read();
    CHECK(found.substr(1, 10'000) == bytes.substr(777, 10'000) && found[60'000] == bytes[10'777]);
    CHECK(found.substr(70'000, 100'000 - 10'778) == bytes.substr(10'778) && found[10'001] == '#');
    const CUfileIOVec_t from[] = {{at + 60'000, 1}, {at + 1, 10'000}};
    CHECK(cuFileWritev(handle, from, 2, 5, 0) == 10'001);
    bytes.replace(5, 10'001, found[60'000] + found.substr(1, 10'000));
    CHECK(contents(fd, bytes.size()) == bytes);
    CHECK(cuFileReadv(handle, into, 4, 1 << 20, 0) == 0);
    CHECK(cuFileReadv(handle, into, 0, 0, 0) == -CU_FILE_INVALID_VALUE);
    CHECK(cuFileReadv(handle, nullptr, 1, 0, 0) == -CU_FILE_INVALID_VALUE);
    CHECK(cuFileReadv(handle, into, 1, 0, 1) == -CU_FILE_INVALID_VALUE);
    CHECK(cuFileWritev(handle, from, 1, -1, 0) == -CU_FILE_INVALID_VALUE);
    cuFileHandleDeregister(handle);
    CHECK(cuFileReadv(handle, into, 1, 0, 0) == -CU_FILE_HANDLE_NOT_REGISTERED);
    close(fd);
}

void Test::errors() const {
    CUfileHandle_t handle = nullptr;
    CUfileDescr_t description{};
    CHECK(cuFileHandleRegister(&handle, nullptr).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_INVALID_FILE_TYPE);
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = -1;
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_INVALID_VALUE);
    description.handle.fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_INVALID_FILE_TYPE);
    close(description.handle.fd);
    int appending = open(path("data").c_str(), O_WRONLY | O_APPEND);
    description.handle.fd = appending;
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_INVALID_FILE_OPEN_FLAG);
    close(appending);

    int fd = open(path("data").c_str(), O_RDONLY);
    CUfileHandle_t reading = add(fd);
    description.handle.fd = fd;
    CHECK(cuFileHandleRegister(&handle, &description).err == CU_FILE_HANDLE_ALREADY_REGISTERED);
    Memory memory(kind, 8192);
    CHECK(cuFileWrite(reading, memory.data(), 10, 0, 0) == -1 && errno == EBADF);
    CHECK(cuFileRead(reading, nullptr, 10, 0, 0) == -CU_FILE_INVALID_VALUE);
    CHECK(cuFileRead(reading, memory.data(), 10, -1, 0) == -CU_FILE_INVALID_VALUE);
    if (kind != Kind::host) CHECK(cuFileRead(reading, memory.data(), 8193, 0, 0) == -CU_FILE_CUDA_POINTER_RANGE_ERROR);
    CHECK(cuFileBufRegister(nullptr, 10, 0).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileBufRegister(memory.data(), 0, 0).err == CU_FILE_INVALID_VALUE);
    cuFileHandleDeregister(reading);
    cuFileHandleDeregister(reading);
    close(fd);
}

// Requests in an order: the second writes what the first has read.
void Test::in_streams() const {
    std::string bytes = random_bytes(100'000, 3);
    int fd = file("stream", bytes);
    int read_only = open(path("data").c_str(), O_RDONLY);
    CUfileHandle_t handle = add(fd), other = add(read_only);
    Memory memory(kind, 200'000);
    CUstream stream = nullptr;  // CUDA's default one
    size_t size = 100'000, beyond = 300'000;
    off_t offset = 10, at = 5, none = 0;
    ssize_t moved = 0, written = 0, wrong = 0;
    CHECK(cuFileReadAsync(handle, memory.data(), &size, &offset, &at, &moved, stream).err == CU_FILE_SUCCESS);
    CHECK(cuFileStreamRegister(stream, 16).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileStreamRegister(stream, 0).err == CU_FILE_SUCCESS);
    CHECK(cuFileStreamRegister(stream, 0).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileWriteAsync(handle, memory.data(), &size, &none, &at, &written, stream).err == CU_FILE_SUCCESS);
    CHECK(cuFileWriteAsync(other, memory.data(), &size, &none, &at, &wrong, stream).err == CU_FILE_SUCCESS);
    CHECK(cuFileStreamDeregister(stream).err == CU_FILE_SUCCESS);  // waits
    CHECK(moved == 99'990 && memory.read().substr(5, 99'990) == bytes.substr(10));
    CHECK(written == 100'000 && contents(fd, 99'990) == bytes.substr(10));
    CHECK(wrong == -1);
    CHECK(cuFileStreamDeregister(stream).err == CU_FILE_INVALID_VALUE);
    late_values(handle, memory, bytes.substr(10));
    CHECK(cuFileReadAsync(handle, memory.data(), nullptr, &offset, &at, &moved, stream).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileReadAsync(handle, memory.data(), &size, &offset, &at, nullptr, stream).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileReadAsync(nullptr, memory.data(), &size, &offset, &at, &moved, stream).err ==
          CU_FILE_HANDLE_NOT_REGISTERED);
    cuFileHandleDeregister(other);
    // An error of the memory, not of the file.
    CHECK(cuFileStreamRegister(stream, 15).err == CU_FILE_SUCCESS);
    CHECK(cuFileReadAsync(handle, memory.data(), &beyond, &none, &at, &moved, stream).err == CU_FILE_SUCCESS);
    CHECK(cuFileStreamDeregister(stream).err == CU_FILE_SUCCESS);
    if (kind != Kind::host) CHECK(moved == -CU_FILE_CUDA_POINTER_RANGE_ERROR);
    cuFileHandleDeregister(handle);
    close(fd);
    close(read_only);
}

// A request's size and offsets are what an earlier request of the stream has read; unless the program said that they
// are known from the start.
void Test::late_values(CUfileHandle_t handle, const Memory& memory, const std::string& bytes) const {
    struct {
        size_t size = 50;
        off_t offset = 7, at = 20;
    } in_file, values;
    int fd = file("values", std::string(reinterpret_cast<const char*>(&in_file), sizeof in_file));
    CUfileHandle_t from = add(fd);
    for (bool fixed : {false, true}) {
        CUstream own = stream(fixed ? 17 : 16);
        CHECK(cuFileStreamRegister(own, fixed ? 7 : 0).err == CU_FILE_SUCCESS);
        memory.write(std::string(200'000, '#'));
        values.size = 100, values.offset = 0, values.at = 10;
        size_t all = sizeof values;
        off_t none = 0;
        ssize_t first = 0, moved = 0;
        if (!fixed) CHECK(cuFileReadAsync(from, &values, &all, &none, &none, &first, own).err == CU_FILE_SUCCESS);
        CHECK(cuFileReadAsync(handle, memory.data(), &values.size, &values.offset, &values.at, &moved, own).err ==
              CU_FILE_SUCCESS);
        if (fixed) values = in_file;
        CHECK(cuFileStreamDeregister(own).err == CU_FILE_SUCCESS);
        CHECK((fixed || first == sizeof values) && values.size == 50 && moved == (fixed ? 100 : 50));
        size_t at = fixed ? 10 : 20, size = fixed ? 100 : 50;
        CHECK(memory.read().substr(0, 200) ==
              std::string(at, '#') + bytes.substr(fixed ? 0 : 7, size) + std::string(200 - at - size, '#'));
    }
    cuFileHandleDeregister(from);
    close(fd);
}

void Test::batches() const {
    constexpr unsigned count = 16;
    constexpr size_t each = 30'011;
    std::string bytes = random_bytes(count * each, 4);
    int fd = file("batch", bytes), read_only = open(path("data").c_str(), O_RDONLY);
    CUfileHandle_t handle = add(fd), other = add(read_only);
    Memory memory(kind, (count + 1) * each);
    CUfileBatchHandle_t batch = nullptr;
    CHECK(cuFileBatchIOSetUp(&batch, count).err == CU_FILE_SUCCESS);
    std::vector<CUfileIOParams_t> requests(count + 1);
    std::vector<int> cookies(count + 1);
    for (unsigned i = 0; i <= count; ++i) {
        CUfileIOParams_t& request = requests[i];
        request.mode = CUFILE_BATCH;
        request.u.batch.devPtr_base = memory.data();
        request.u.batch.devPtr_offset = static_cast<off_t>(i * each);
        request.u.batch.file_offset = static_cast<off_t>(i * each);
        request.u.batch.size = each;
        request.fh = handle;
        request.opcode = CUFILE_READ;
        request.cookie = &cookies[i];
    }
    CHECK(cuFileBatchIOSubmit(batch, count + 1, requests.data(), 0).err == CU_FILE_BATCH_FULL);
    // One fails by itself: it writes to a file that is open for reading.
    requests[7].fh = other;
    requests[7].opcode = CUFILE_WRITE;
    CHECK(cuFileBatchIOSubmit(batch, count, requests.data(), 0).err == CU_FILE_SUCCESS);
    std::vector<CUfileIOEvents_t> events(count);
    unsigned seen = 0;
    for (unsigned got = 0; got < count;) {
        unsigned most = count - got;
        CHECK(cuFileBatchIOGetStatus(batch, 1, &most, events.data(), nullptr).err == CU_FILE_SUCCESS);
        if (most == 0) break;
        for (unsigned i = 0; i < most; ++i) {
            auto index = static_cast<unsigned>(static_cast<int*>(events[i].cookie) - cookies.data());
            seen |= 1U << index;
            if (index == 7)
                CHECK(events[i].status == CUFILE_FAILED && static_cast<ssize_t>(events[i].ret) == -EBADF);
            else
                CHECK(events[i].status == CUFILE_COMPLETE && events[i].ret == each);
        }
        got += most;
    }
    CHECK(seen == (1U << count) - 1);
    std::string found = memory.read();
    for (unsigned i = 0; i < count; ++i)
        CHECK(found.substr(i * each, each) == (i == 7 ? std::string(each, '#') : bytes.substr(i * each, each)));
    unsigned most = count;
    timespec at_once{0, 0};
    CHECK(cuFileBatchIOGetStatus(batch, 0, &most, events.data(), &at_once).err == CU_FILE_SUCCESS && most == 0);
    requests[0].mode = static_cast<decltype(requests[0].mode)>(9);
    CHECK(cuFileBatchIOSubmit(batch, 1, requests.data(), 0).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileBatchIOSubmit(batch, 1, &requests[1], 0).err == CU_FILE_SUCCESS);
    CHECK(cuFileBatchIOCancel(batch).err == CU_FILE_SUCCESS);
    most = 1;
    CHECK(cuFileBatchIOGetStatus(batch, 1, &most, events.data(), nullptr).err == CU_FILE_SUCCESS && most == 1);
    CHECK(events[0].status == CUFILE_CANCELED || events[0].status == CUFILE_COMPLETE);
    CHECK(cuFileBatchIOSubmit(batch, 1, &requests[1], 0).err == CU_FILE_SUCCESS);
    cuFileBatchIODestroy(batch);
    CHECK(cuFileBatchIOSubmit(batch, 1, &requests[1], 0).err == CU_FILE_INVALID_VALUE);
    cuFileHandleDeregister(handle);
    cuFileHandleDeregister(other);
    close(fd);
    close(read_only);
}

// Of known requests, at each level; nothing before the start and after the stop.
void Test::statistics() const {
    int fd = file("counted", std::string(100'000, 'c')), level = -1;
    CUfileHandle_t handle = add(fd);
    Memory memory(kind, 100'000);
    CUfileStatsLevel1_t basic{};
    CUfileStatsLevel2_t detailed{};
    CUfileStatsLevel3_t all{};
    CHECK(cuFileGetStatsLevel(&level).err == CU_FILE_SUCCESS && level == 0);
    CHECK(cuFileGetStatsL1(&basic).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileSetStatsLevel(4).err == CU_FILE_INVALID_VALUE && cuFileSetStatsLevel(-1).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileSetStatsLevel(3).err == CU_FILE_SUCCESS && cuFileStatsReset().err == CU_FILE_SUCCESS);
    CHECK(cuFileRead(handle, memory.data(), 1000, 0, 0) == 1000);
    CHECK(cuFileStatsStart().err == CU_FILE_SUCCESS);
    CHECK(cuFileBufRegister(memory.data(), 100'000, 0).err == CU_FILE_SUCCESS);
    for (size_t size : {1000, 5000, 6000, 100'000})
        CHECK(cuFileRead(handle, memory.data(), size, 0, 0) == static_cast<ssize_t>(size));
    CHECK(cuFileWrite(handle, memory.data(), 20'000, 0, 0) == 20'000);
    CHECK(cuFileRead(handle, memory.data(), 10, -1, 0) < 0);
    CHECK(cuFileBufDeregister(memory.data()).err == CU_FILE_SUCCESS);
    CHECK(cuFileStatsStop().err == CU_FILE_SUCCESS);
    CHECK(cuFileRead(handle, memory.data(), 1000, 0, 0) == 1000);
    CHECK(cuFileGetStatsL3(&all).err == CU_FILE_SUCCESS && cuFileGetStatsL2(&detailed).err == CU_FILE_SUCCESS);
    CHECK(cuFileGetStatsL1(&basic).err == CU_FILE_SUCCESS);
    CHECK(basic.read_ops.ok == 4 && basic.read_ops.err == 1 && basic.read_bytes == 112'000);
    CHECK(basic.write_ops.ok == 1 && basic.write_bytes == 20'000 && basic.buf_register_ops.ok == 1);
    CHECK(basic.read_bw_bytes_per_sec > 0 && basic.read_lat_avg_us <= basic.read_lat_sum_us);
    // Below 4 KiB; 4 to 8; 8 to 16, 16 to 32, 32 to 64, 64 to 128.
    CHECK(detailed.read_size_kb_hist[0] == 1 && detailed.read_size_kb_hist[1] == 2 &&
          detailed.read_size_kb_hist[5] == 1);
    CHECK(detailed.write_size_kb_hist[3] == 1);
    const CUfilePerGpuStats_t& first = all.per_gpu_stats[0];
    bool on_device = kind != Kind::host;
    CHECK(first.n_total_reads == (on_device ? 5 : 0) && first.read_bytes == (on_device ? 112'000 : 0));
    CHECK(first.n_reads_err == (on_device ? 1 : 0) && first.n_mmap_ok == (on_device ? 1 : 0));
    CHECK(first.reg_bytes == (on_device ? 100'000 : 0) && (!on_device || all.num_gpus >= 1));
    CHECK(cuFileSetStatsLevel(1).err == CU_FILE_SUCCESS && cuFileGetStatsL2(&detailed).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileStatsReset().err == CU_FILE_SUCCESS && cuFileGetStatsL1(&basic).err == CU_FILE_SUCCESS);
    CHECK(basic.read_ops.ok == 0 && basic.read_bytes == 0);
    CHECK(cuFileGetStatsL1(nullptr).err == CU_FILE_INVALID_VALUE);
    cuFileHandleDeregister(handle);
    close(fd);
}

void Test::devices() const {
    size_t size = 0, least = 1, most = 0;
    CHECK(cuFileGetBARSizeInKB(0, nullptr).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileGetBARSizeInKB(99, &size).err == CU_FILE_INVALID_VALUE);
    CHECK(cuFileGetParameterMinMaxValue(size_parameter(1), &least, &most).err == CU_FILE_SUCCESS && least < most);
    CHECK(cuFileGetParameterMinMaxValue(size_parameter(99), &least, &most).err == CU_FILE_INVALID_VALUE);
    size_t sizes[2] = {4, 8}, counts[2] = {1, 2};
    CHECK(cuFileSetParameterPosixPoolSlabArray(sizes, counts, 2).err == CU_FILE_DRIVER_ALREADY_OPEN);
    while (cuFileUseCount() > 0) CHECK(cuFileDriverClose().err == CU_FILE_SUCCESS);
    CHECK(cuFileGetBARSizeInKB(0, &size).err == CU_FILE_DRIVER_NOT_INITIALIZED);
    CHECK(cuFileStatsStart().err == CU_FILE_DRIVER_NOT_INITIALIZED);
    CHECK(cuFileSetParameterPosixPoolSlabArray(sizes, counts, 2).err == CU_FILE_SUCCESS);
    sizes[0] = counts[1] = 0;
    CHECK(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 2).err == CU_FILE_SUCCESS);
    CHECK(sizes[0] == 4 && counts[1] == 2);
    CHECK(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 3).err == CU_FILE_INVALID_VALUE);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    std::string name = argv[2];
    Test test{argv[1], name == "sim" ? Kind::sim : (name == "cuda" ? Kind::cuda : Kind::host)};
    if (test.kind == Kind::cuda && !gpu().start()) {
        std::puts("no CUDA driver, or no device");
        return 77;
    }
    test.parameters();
    test.driver();
    test.data();
    test.parts();
    test.errors();
    test.in_streams();
    test.batches();
    test.statistics();
    test.devices();
    return failures == 0 ? 0 : 1;
}
