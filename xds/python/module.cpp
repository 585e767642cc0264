// The module xds._xds: the C++ interface for Python. Whatever may wait is done without the GIL.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>

#include "xds/client/include/xds.hpp"
#include "xds/python/memory.h"
#include "xds/python/stream.h"
#include "xds/python/tensor.h"

namespace py = pybind11;

namespace fabric::xds::python {
namespace {

::xds::Mode mode_from(const std::string& name) {
    if (name == "auto") return ::xds::Mode::automatic;
    if (name == "direct_only") return ::xds::Mode::direct_only;
    if (name == "staged") return ::xds::Mode::staged;
    if (name == "tcp") return ::xds::Mode::tcp;
    throw py::value_error("mode is auto, direct_only, staged or tcp, not " + name);
}

// Modes of the built-in open(), as far as they make sense for bytes at offsets.
int flags_from(const std::string& mode) {
    if (mode == "r" || mode == "rb") return O_RDONLY;
    if (mode == "r+" || mode == "r+b" || mode == "rb+") return O_RDWR;
    if (mode == "w" || mode == "wb") return O_WRONLY | O_CREAT | O_TRUNC;
    if (mode == "w+" || mode == "w+b" || mode == "wb+") return O_RDWR | O_CREAT | O_TRUNC;
    if (mode == "x" || mode == "xb") return O_WRONLY | O_CREAT | O_EXCL;
    throw py::value_error("mode is r, r+, w, w+ or x, not " + mode);
}

// Shared: a file keeps its context, and a call in another thread keeps what it uses.
struct PyContext {
    PyContext(::xds::Context&& made, bool verifies) : context(std::move(made)), verify(verifies) {}
    ::xds::Context context;
    const bool verify;
};

class PyFile {
  public:
    PyFile(std::shared_ptr<PyContext> context, ::xds::File&& file)
        : context_(std::move(context)), file_(std::move(file)) {}

    size_t read_into(const py::object& target, uint64_t offset) const {
        Memory memory(target, Use::write);
        py::gil_scoped_release released;
        return file_.read(memory.data(), memory.size(), offset);
    }
    size_t write(const py::object& source, uint64_t offset) const {
        Memory memory(source, Use::read);
        py::gil_scoped_release released;
        return file_.write(memory.data(), memory.size(), offset);
    }
    py::bytes read(size_t length, uint64_t offset) const {
        // Not more than there is: a length may be far beyond the file's end.
        uint64_t size = attributes().bytes;
        length = offset >= size ? 0 : static_cast<size_t>(std::min<uint64_t>(length, size - offset));
        auto bytes =
            py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(length)));
        if (!bytes) throw py::error_already_set();
        char* data = PyBytes_AS_STRING(bytes.ptr());
        size_t got = 0;
        {
            py::gil_scoped_release released;
            got = file_.read(data, length, offset);
        }
        return got == length ? bytes : py::bytes(data, got);
    }
    xds_attributes attributes() const {
        py::gil_scoped_release released;
        return file_.attributes();
    }
    void sync() const {
        py::gil_scoped_release released;
        file_.sync();
    }
    std::string explain(const py::object& object) const {
        Memory memory(object, Use::read);
        return file_.explain(memory.data(), memory.size());
    }
    void close() {
        py::gil_scoped_release released;
        file_.close();
    }
    const ::xds::File& file() const { return file_; }
    const std::shared_ptr<PyContext>& context() const { return context_; }

  private:
    std::shared_ptr<PyContext> context_;  // outlives the file
    ::xds::File file_;
};

std::shared_ptr<PyContext> open_context(const std::string& address, const std::string& agent, const std::string& mode,
                                        uint32_t streams, uint32_t timeout_ms, bool verify) {
    ::xds::Options options;
    options.address = address;
    options.agent = agent;
    options.mode = mode_from(mode);
    options.streams = streams;
    options.timeout_ms = timeout_ms;
    options.verify = verify;
    py::gil_scoped_release released;
    return std::make_shared<PyContext>(::xds::Context(options), verify);
}

// All reads at once: [(object, offset)...] of one file; what each got.
std::vector<size_t> read_batch(const PyFile& file, const py::sequence& requests) {
    constexpr unsigned depth = 64;
    std::vector<Memory> memories;
    std::vector<uint64_t> offsets;
    for (const py::handle& request : requests) {
        auto pair = request.cast<py::tuple>();
        memories.emplace_back(py::reinterpret_borrow<py::object>(pair[0]), Use::write);
        offsets.push_back(pair[1].cast<uint64_t>());
    }
    std::vector<size_t> got(memories.size());
    py::gil_scoped_release released;
    ::xds::Queue queue = file.context()->context.queue(depth);
    size_t begun = 0;
    for (size_t ended = 0; ended < memories.size();) {
        while (begun < memories.size() &&
               queue.read(file.file(), memories[begun].data(), memories[begun].size(), offsets[begun], begun))
            ++begun;
        for (const ::xds::Completion& completion : queue.wait(depth)) {
            got[completion.cookie] = completion.bytes();
            ++ended;
        }
    }
    return got;
}

// Small files: [(path, object)...]; of each what it got, or an OSError.
py::list read_many(const PyContext& context, const py::sequence& requests) {
    std::vector<Memory> memories;
    std::vector<std::string> paths;
    for (const py::handle& request : requests) {
        auto pair = request.cast<py::tuple>();
        paths.push_back(pair[0].cast<std::string>());
        memories.emplace_back(py::reinterpret_borrow<py::object>(pair[1]), Use::write);
    }
    std::vector<xds_many> files(paths.size());
    for (size_t i = 0; i < files.size(); ++i)
        files[i] = {sizeof(xds_many), 0, paths[i].c_str(), memories[i].data(), memories[i].size(), 0, 0};
    if (!files.empty()) {
        py::gil_scoped_release released;
        (void)context.context.read_many(files);
    }
    auto os_error = py::module_::import("builtins").attr("OSError");
    py::list results;
    for (size_t i = 0; i < files.size(); ++i)
        if (files[i].error == 0)
            results.append(files[i].got);
        else
            results.append(os_error(-files[i].error, std::generic_category().message(-files[i].error), paths[i]));
    return results;
}

py::dict stats(const PyContext& context) {
    xds_stats found = context.context.stats();
    py::dict result;
    auto add = [&](const char* name, uint64_t value) { result[name] = value; };
    add("connections", found.connections);
    add("requests", found.requests);
    add("errors", found.errors);
    add("direct_bytes", found.direct_bytes);
    add("staged_bytes", found.staged_bytes);
    add("tcp_bytes", found.tcp_bytes);
    add("local_bytes", found.local_bytes);
    add("verified_bytes", found.verified_bytes);
    add("checksum_errors", found.checksum_errors);
    return result;
}

// Memory of the simulated accelerator, offered as device memory is.
class SimMemory {
  public:
    explicit SimMemory(size_t size) : size_(size), data_(xds_sim_alloc(std::max<size_t>(size, 1), 0)) {
        if (data_ == nullptr) throw ::xds::Error(ENOMEM, xds_error());
    }
    ~SimMemory() { xds_sim_free(data_); }
    SimMemory(const SimMemory&) = delete;
    SimMemory& operator=(const SimMemory&) = delete;
    py::dict interface() const {
        py::dict description;
        description["data"] = py::make_tuple(reinterpret_cast<uintptr_t>(data_), false);
        description["shape"] = py::make_tuple(size_);
        description["typestr"] = "|u1";
        description["version"] = 3;
        return description;
    }
    py::bytes bytes() const {
        std::string copy(size_, '\0');
        ::xds::detail::checked(xds_sim_copy_out(copy.data(), data_, size_));
        return copy;
    }
    void fill(const py::bytes& bytes) const {
        auto text = bytes.cast<std::string>();
        ::xds::detail::checked(xds_sim_copy_in(data_, text.data(), std::min(text.size(), size_)));
    }

  private:
    size_t size_;
    void* data_;
};

void add_file(py::module_& module) {
    py::class_<PyFile>(module, "File", "A file of the target. Offsets and sizes are in bytes.")
        .def("read_into", &PyFile::read_into, py::arg("memory"), py::arg("offset") = 0,
             "Fills the memory; returns the bytes read, fewer only at the end of the file.")
        .def("read", &PyFile::read, py::arg("length"), py::arg("offset") = 0)
        .def("write", &PyFile::write, py::arg("memory"), py::arg("offset") = 0)
        .def("read_batch", &read_batch, py::arg("requests"),
             "Reads [(memory, offset), ...] at once; returns the bytes of each.")
        .def(
            "read_into_stream",
            [](const PyFile& file, const py::object& memory, PyStream& stream, off_t offset) {
                return stream.read(file.file(), memory, offset);
            },
            py::arg("memory"), py::arg("stream"), py::arg("offset") = 0,
            "As read_into, in the stream's order; a Transfer, whose result is set when the stream has come by.")
        .def(
            "write_from_stream",
            [](const PyFile& file, const py::object& memory, PyStream& stream, off_t offset) {
                return stream.write(file.file(), memory, offset);
            },
            py::arg("memory"), py::arg("stream"), py::arg("offset") = 0)
        .def("sync", &PyFile::sync, "Makes completed writes durable.")
        .def("explain", &PyFile::explain, py::arg("memory"), "Which way data would go, and why.")
        .def("close", &PyFile::close)
        .def_property_readonly("size", [](const PyFile& file) { return file.attributes().bytes; })
        .def_property_readonly("context", &PyFile::context)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyFile& file, const py::args&) { file.close(); });
}

void add_context(py::module_& module) {
    py::class_<PyContext, std::shared_ptr<PyContext>>(module, "Context", "Connections to one target (see xds.h).")
        .def(py::init(&open_context), py::arg("address") = "", py::arg("agent") = "", py::arg("mode") = "auto",
             py::arg("streams") = 0, py::arg("timeout_ms") = 0, py::arg("verify") = false)
        .def(
            "open",
            [](const std::shared_ptr<PyContext>& self, const std::string& path, const std::string& mode) {
                int flags = flags_from(mode);
                py::gil_scoped_release released;
                return std::make_unique<PyFile>(self, self->context.open(path, flags));
            },
            py::arg("path"), py::arg("mode") = "r")
        .def(
            "open_fd",
            [](const std::shared_ptr<PyContext>& self, int fd) {
                py::gil_scoped_release released;
                return std::make_unique<PyFile>(self, self->context.open_fd(fd));
            },
            py::arg("fd"), "The file behind a descriptor of a file on a mount of the gateway, or of any other.")
        .def("read_many", &read_many, py::arg("requests"),
             "Small files: [(path, memory), ...]; a list of the bytes read, or an OSError, of each.")
        .def("stats", &stats)
        .def("close",
             [](PyContext& self) {
                 py::gil_scoped_release released;
                 self.context.close();
             })
        .def_readonly("verify", &PyContext::verify)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyContext& self, const py::args&) {
            py::gil_scoped_release released;
            self.context.close();
        });
}

void add_stream(py::module_& module) {
    py::class_<::xds::Transfer, std::shared_ptr<::xds::Transfer>>(module, "Transfer", "A request in a stream.")
        .def_readwrite("length", &::xds::Transfer::length, "Looked at when its turn has come, as the offset is.")
        .def_readwrite("offset", &::xds::Transfer::offset)
        .def_readonly("result", &::xds::Transfer::result, "Bytes, or a negative errno value.");
    py::class_<PyStream>(module, "Stream", "An order of work (see xds.h): kind host, sim, or cuda with a CUstream.")
        .def(py::init<const std::string&, uintptr_t>(), py::arg("kind") = "host", py::arg("native") = 0)
        .def("call", &PyStream::call, py::arg("function"), "Calls it in the stream's order, in another thread.")
        .def("sync", &PyStream::sync, "Waits for what was given before; OSError of the first request that failed.")
        .def("close", &PyStream::close)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyStream& self, const py::args&) { self.close(); });
}

void add_memory(py::module_& module) {
    py::class_<Tensor>(module, "Tensor", py::buffer_protocol(), "Host memory with an element type and a shape.")
        .def(py::init<const std::string&, std::vector<int64_t>>(), py::arg("dtype"), py::arg("shape"))
        .def_buffer(&Tensor::buffer)
        .def_property_readonly("dtype", [](const Tensor& tensor) { return tensor.type().name; })
        .def_property_readonly("shape", [](const Tensor& tensor) { return py::tuple(py::cast(tensor.shape())); })
        .def_property_readonly("nbytes", &Tensor::size)
        .def("__dlpack__", [](const Tensor& tensor, const py::args&, const py::kwargs&) { return tensor.dlpack(); })
        .def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(static_cast<int>(dl_cpu), 0); });
    py::class_<SimMemory>(module, "SimMemory", "Memory of a simulated accelerator: for tests where there is none.")
        .def(py::init<size_t>(), py::arg("size"))
        .def_property_readonly("__cuda_array_interface__", &SimMemory::interface)
        .def("bytes", &SimMemory::bytes)
        .def("fill", &SimMemory::fill);
    module.def(
        "itemsize",
        [](const std::string& name) -> py::object {
            const ElementType* type = element_type(name);
            return type == nullptr ? py::object(py::none()) : py::int_(type->size);
        },
        "Bytes of an element type as safetensors names it; None: there is no such type.");
}

}  // namespace
}  // namespace fabric::xds::python

PYBIND11_MODULE(_xds, module) {
    using namespace fabric::xds::python;
    // As OSError, whose subclasses Python chooses by number: FileNotFoundError, TimeoutError and so on.
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const ::xds::Error& error) {
            py::object arguments = py::make_tuple(error.number(), std::string(error.what()));
            PyErr_SetObject(PyExc_OSError, arguments.ptr());
        }
    });
    module.attr("__version__") = xds_version();
    add_memory(module);
    add_stream(module);
    add_file(module);
    add_context(module);
}
