// Opening by name, with or without making the file.
#pragma once

#include "fsal_fabric/object.h"

namespace fabric::fsal {

struct OpenByName {
    Object& parent;
    const char* name;
    fsal_openflags_t flags;
    fsal_create_mode mode;
    const char* verifier;       // for the exclusive modes
    fsal_attrlist* set;         // for a file that is made
    fsal_attrlist* attributes;  // wanted of the opened file, may be null

    // Results
    Object* object = nullptr;
    bool caller_checks = true;  // the file was there: whether the caller may open it is to be checked
};

fsal_status_t open_by_name(OpenByName& call, state_t* state);

// open.cpp: the same for a file that is known.
fsal_status_t open_object(Object& object, state_t* state, fsal_openflags_t flags, fsal_create_mode mode,
                          const char* verifier, fsal_attrlist* attributes);

}  // namespace fabric::fsal
