// Files that the burst buffer writes back: what the operations ask and tell it. Without one, or without rules and files
// left to drain, each is a test of a pointer or of a counter.
#pragma once

#include <sys/stat.h>

#include <optional>

#include "fsal_fabric/object.h"

namespace fabric::fsal {

// Whether the backing store may lack something of the file. Asked before the file is looked at: see WriteBack::dirty.
bool undrained(const Object& object);
// Takes a write for a file that falls under a rule, or that has something undrained. How many bytes; 0: the usual way.
Result<size_t> hold_write(Object& object, int fd, uint64_t offset, std::span<const iovec> from, size_t length);
// Makes what was taken of the file durable. Nothing: no write of it was taken, as far as is not drained.
std::optional<Status> commit_held(const Object& object);
// Bytes in front of the file's end.
Status read_undrained(const Object& object, int fd, uint64_t offset, size_t length, char* to);
// Has the file drained first, for what only the backing file system can do. 0 or a positive errno.
int drain_first(const Object& object);
// Truncates as truncate_as_caller() does, what is undrained with it.
int truncate_object(const Object& object, int fd, uint64_t size);

// The time of modification as clients are to see it, where it is not the backing file's.
std::optional<timespec> visible_mtime(const Object& object);
// It has lost a name.
void note_unlinked(const Object& object);
// Clients have set attributes of the file.
void note_attributes_set(const Object& object, const fsal_attrlist& set);

}  // namespace fabric::fsal
