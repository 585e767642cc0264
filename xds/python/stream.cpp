#include "xds/python/stream.h"

namespace py = pybind11;

namespace fabric::xds::python {

PyStream::PyStream(const std::string& kind, uintptr_t native)
    : stream_(kind.c_str(), reinterpret_cast<void*>(native)) {}  // NOLINT(performance-no-int-to-ptr)

PyStream::~PyStream() {
    py::gil_scoped_release released;
    try {
        stream_.close();
    } catch (const ::xds::Error&) {
        // Closed already, or closed by its own work.
    }
}

PyStream::InUse& PyStream::keep(const py::object& object, Use use, off_t offset) {
    in_use_.push_back({Memory(object, use), std::make_shared<::xds::Transfer>()});
    InUse& kept = in_use_.back();
    kept.transfer->length = kept.memory.size();
    kept.transfer->offset = offset;
    return kept;
}

std::shared_ptr<::xds::Transfer> PyStream::read(const ::xds::File& file, const py::object& target, off_t offset) {
    InUse& kept = keep(target, Use::write, offset);
    stream_.read(file, kept.memory.data(), *kept.transfer);
    return kept.transfer;
}

std::shared_ptr<::xds::Transfer> PyStream::write(const ::xds::File& file, const py::object& source, off_t offset) {
    InUse& kept = keep(source, Use::read, offset);
    stream_.write(file, kept.memory.data(), *kept.transfer);
    return kept.transfer;
}

void PyStream::call(const py::object& function) {
    // Freed with the GIL held, in whichever thread.
    auto* held = new py::object(function);
    auto run = [held] {
        py::gil_scoped_acquire acquired;
        try {
            (*held)();
        } catch (py::error_already_set& error) {
            error.discard_as_unraisable("xds.Stream.call");
        }
        delete held;
    };
    try {
        stream_.call(run);
    } catch (...) {
        delete held;
        throw;
    }
}

void PyStream::sync() {
    // What comes in meanwhile may still be in use.
    std::vector<InUse> waited_for = std::move(in_use_);
    in_use_.clear();
    py::gil_scoped_release released;
    stream_.sync();
}

void PyStream::close() {
    {
        py::gil_scoped_release released;
        stream_.close();
    }
    in_use_.clear();
}

}  // namespace fabric::xds::python
