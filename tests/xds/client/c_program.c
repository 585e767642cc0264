/* A C program against the shared library: it builds as C, and it may exit, or unload the library, with all open. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "xds.h"

static int fail(const char* what) {
    fprintf(stderr, "%s: %s\n", what, xds_error());
    return 1;
}

int main(int argc, char** argv) {
    struct xds_options options = {0};
    xds_ctx* ctx = NULL;
    xds_file* file = NULL;
    char back[32] = "";
    if (argc != 3) return 2;
    options.size = sizeof options;
    options.address = argv[1];
    if (xds_ctx_open(&options, &ctx) != 0) return fail("xds_ctx_open");
    if (xds_open(ctx, "f", O_RDONLY, 0, &file) != 0) return fail("xds_open");
    if (xds_pread(file, back, sizeof back, 0) != 5) return fail("xds_pread");
    if (strcmp(back, "hello") != 0) return fail("bytes");
    if (strcmp(argv[2], "close") == 0 && xds_ctx_close(ctx) != 0) return fail("xds_ctx_close");
    if (strcmp(argv[2], "unload") == 0) {
        void* again = dlopen("libxds.so.0", RTLD_NOW | RTLD_NOLOAD);
        if (again == NULL || dlclose(again) != 0) return fail("dlclose");
    }
    return 0;
}
