#include "fsal_fabric/attributes.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

fsal_status_t getattrs(fsal_obj_handle* object, fsal_attrlist* attributes) {
    Result<UniqueFd> fd = from(object).open(O_PATH | O_NOFOLLOW);
    if (fd.ok()) return fetch_attributes(from(object), fd->get(), attributes);
    if (FSAL_TEST_MASK(attributes->request_mask, ATTR_RDATTR_ERR)) attributes->valid_mask = ATTR_RDATTR_ERR;
    return to_fsal(fd.status());
}

}  // namespace fabric::fsal
